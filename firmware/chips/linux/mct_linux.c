/* SPDX-License-Identifier: Apache-2.0 */
/* Linux as a board: the line is a serial device, a pseudo-terminal or a TCP connection, the slots are
 * a file.
 *
 *     firmware                              a new pseudo-terminal, whose path is printed
 *     firmware --port /dev/ttyS0[:115200]   a serial device
 *     firmware --port tcp:5000              one TCP connection after the other, from this machine;
 *                                           a second one at the same time is closed at once
 *     firmware --state FILE                 where the slots are; mcutrain.slots if not given
 *     firmware --threads N                  at most so many; one for each processor if not given */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "mct_app.h"
#include "mct_board.h"
#include "mct_board_config.h"

#define MCT_EXIT_USAGE 2

static struct {
    const char *port, *state;
    char **arguments;
    int line;     /* where bytes come from and go to, -1: none yet */
    int listener; /* TCP: where the next connection comes from, -1: not TCP */
    int file;     /* of the slots */
    const uint8_t *slots;
} linux_board = {.port = "pty", .state = "mcutrain.slots", .line = -1, .listener = -1};

/* One sentence, and exit code 2. */
static _Noreturn void mct_linux_fail(const char *what, const char *which) {
    fprintf(stderr, "firmware: %s %s: %s\n", what, which, strerror(errno));
    exit(MCT_EXIT_USAGE);
}

/* ---- the line ---- */

static speed_t mct_linux_speed(const char *text) {
    static const struct {
        long baud;
        speed_t speed;
    } speeds[] = {
        {9600, B9600},     {19200, B19200},   {38400, B38400},   {57600, B57600},
        {115200, B115200}, {230400, B230400}, {460800, B460800}, {921600, B921600},
    };
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        if (speeds[i].baud == strtol(text, NULL, 10)) {
            return speeds[i].speed;
        }
    }
    errno = EINVAL;
    mct_linux_fail("cannot set the baud rate", text);
}

static void mct_linux_raw(int line, const char *baud) {
    struct termios settings;
    if (tcgetattr(line, &settings) != 0) {
        return; /* no terminal: nothing to set */
    }
    cfmakeraw(&settings);
    if (baud != NULL) {
        const speed_t speed = mct_linux_speed(baud);
        cfsetispeed(&settings, speed);
        cfsetospeed(&settings, speed);
    }
    tcsetattr(line, TCSANOW, &settings);
}

static void mct_linux_open_pty(void) {
    linux_board.line = posix_openpt(O_RDWR | O_NOCTTY);
    if (linux_board.line < 0 || grantpt(linux_board.line) != 0 || unlockpt(linux_board.line) != 0) {
        mct_linux_fail("cannot make", "a pseudo-terminal");
    }
    const char *name = ptsname(linux_board.line);
    /* held open here too, so that reading does not fail while no host has it open */
    const int held = open(name, O_RDWR | O_NOCTTY);
    if (held >= 0) {
        mct_linux_raw(held, NULL);
    }
    printf("port %s\n", name);
}

static void mct_linux_open_serial(const char *port) {
    char path[256];
    snprintf(path, sizeof path, "%s", port);
    char *baud = strrchr(path, ':');
    if (baud != NULL) {
        *baud++ = '\0';
    }
    linux_board.line = open(path, O_RDWR | O_NOCTTY);
    if (linux_board.line < 0) {
        mct_linux_fail("cannot open", path);
    }
    mct_linux_raw(linux_board.line, baud);
}

static void mct_linux_listen(const char *number) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtol(number, NULL, 10)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int yes = 1;
    socklen_t size = sizeof address;
    linux_board.listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(linux_board.listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(linux_board.listener, (const struct sockaddr *)&address, size) != 0 ||
        listen(linux_board.listener, 1) != 0 ||
        getsockname(linux_board.listener, (struct sockaddr *)&address, &size) != 0) {
        mct_linux_fail("cannot listen on TCP port", number);
    }
    printf("port socket://127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
}

static int mct_linux_accept(void) {
    const int now = 1; /* answers are small and waited for: do not gather them */
    const int line = accept(linux_board.listener, NULL, NULL);
    setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
    return line;
}

#ifdef MCT_LEARN
#define MCT_LINUX_LOOK_MS 5 /* a program that listens looks so often at what a driver brought */
#else
#define MCT_LINUX_LOOK_MS (-1)
#endif

/* Until there is something to read. Who connects meanwhile is turned away, its connection closed at
 * once; but the host may have left between the two looks, and then the newcomer has the line. */
static void mct_linux_wait(void) {
    for (;;) {
        struct pollfd lines[] = {
            {.fd = linux_board.line, .events = POLLIN},
            {.fd = linux_board.listener, .events = POLLIN}, /* overlooked if -1 */
        };
        if (poll(lines, 2, MCT_LINUX_LOOK_MS) <= 0) { /* the time is over, or a signal came */
            MCT_WAITING();
            continue;
        }
        if (lines[0].revents != 0) {
            return;
        }
        if (linux_board.line < 0) {
            linux_board.line = mct_linux_accept();
            continue;
        }
        char byte;
        int leaves = mct_linux_accept();
        if (recv(linux_board.line, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            const int stays = leaves;
            leaves = linux_board.line;
            linux_board.line = stays;
        }
        close(leaves);
    }
}

int32_t mct_board_receive(void) {
    for (;;) {
        static uint8_t bytes[4096];
        static ssize_t count, next;
        if (next < count) {
            return bytes[next++];
        }
        next = 0;
        MCT_WAITING();
        mct_linux_wait();
        count = read(linux_board.line, bytes, sizeof bytes);
        if (count > 0 || (count < 0 && errno == EINTR)) {
            continue;
        }
        count = 0;
        if (linux_board.listener < 0) {
            return -1;
        }
        close(linux_board.line);
        linux_board.line = -1;
    }
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    /* gathered up to a frame's delimiter, so that TCP does not carry single bytes */
    static uint8_t waiting[1024];
    static uint32_t filled;
    for (uint32_t i = 0; i < count; i++) {
        waiting[filled++] = bytes[i];
        if ((bytes[i] != 0 || filled == 1) && filled < sizeof waiting) {
            continue;
        }
        for (uint32_t sent = 0; sent < filled && linux_board.line >= 0;) {
            const ssize_t done = write(linux_board.line, waiting + sent, filled - sent);
            if (done < 0 && errno != EINTR) {
                break; /* the host is gone; receiving notices it */
            }
            sent += done > 0 ? (uint32_t)done : 0;
        }
        filled = 0;
    }
}

/* ---- time, stack, restart ---- */

uint64_t mct_board_cycles(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t mct_board_clock_hz(void) {
    return 1000000000u; /* nanoseconds */
}

uint32_t mct_board_stack_used(void) {
    return 0;
}

/* The same process with the same line, as after a reset. */
_Noreturn void mct_board_restart(void) {
    char line[32], listener[32];
    snprintf(line, sizeof line, "%d", linux_board.line);
    snprintf(listener, sizeof listener, "%d", linux_board.listener);
    setenv("MCT_LINE", line, 1);
    setenv("MCT_LISTENER", listener, 1);
    execv("/proc/self/exe", linux_board.arguments);
    mct_linux_fail("cannot restart", linux_board.arguments[0]);
}

bool mct_board_bootloader(void) {
    return false;
}

/* ---- slots ---- */

/* Room on the disk for all that will ever be written: a full disk is told now, not at a save. */
static bool mct_linux_allocate(int file) {
    const int error = posix_fallocate(file, 0, 2 * MCT_SLOT_BYTES);
    if (error == EOPNOTSUPP || error == EINVAL) { /* a file system that cannot promise it */
        return ftruncate(file, 2 * MCT_SLOT_BYTES) == 0;
    }
    errno = error;
    return error == 0;
}

/* The slots are read through a mapping and written with pwrite: a store to a mapping would end the
 * program with SIGBUS where pwrite reports that the disk is full. */
static void mct_linux_open_slots(void) {
    struct stat found;
    linux_board.file = open(linux_board.state, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (linux_board.file < 0 || fstat(linux_board.file, &found) != 0) {
        mct_linux_fail("cannot keep the state in", linux_board.state);
    }
    if (!mct_linux_allocate(linux_board.file)) {
        const int error = errno;
        if (found.st_size == 0) {
            unlink(linux_board.state); /* made just now */
        }
        errno = error;
        mct_linux_fail("cannot keep the state in", linux_board.state);
    }
    linux_board.slots = mmap(NULL, 2 * MCT_SLOT_BYTES, PROT_READ, MAP_SHARED, linux_board.file, 0);
    if (linux_board.slots == MAP_FAILED) {
        mct_linux_fail("cannot keep the state in", linux_board.state);
    }
}

const uint8_t *mct_board_slot(int32_t slot) {
    return linux_board.slots + (size_t)slot * MCT_SLOT_BYTES;
}

static bool mct_linux_flush(void) {
    return fdatasync(linux_board.file) == 0;
}

static bool mct_linux_put(off_t offset, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        const ssize_t done = pwrite(linux_board.file, bytes, count, offset);
        if (done <= 0 && errno != EINTR) {
            return false;
        }
        const size_t step = done > 0 ? (size_t)done : 0;
        bytes += step;
        offset += (off_t)step;
        count -= step;
    }
    return true;
}

bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t count) {
    uint8_t erased[MCT_PAGE_BYTES];
    memset(erased, 0xFF, sizeof erased);
    while (count > 0) {
        count -= (uint32_t)sizeof erased;
        const off_t at = (off_t)slot * MCT_SLOT_BYTES + (off_t)offset + (off_t)count;
        if (!mct_linux_put(at, erased, sizeof erased)) {
            return false;
        }
    }
    return mct_linux_flush();
}

#ifdef MCT_REMEMBER
#define MCT_LINUX_IS_LOG true
#else
#define MCT_LINUX_IS_LOG false
#endif

/* Pages of a log must be on the disk in their order. Of a record page 0 makes it valid: the others must
 * be there before it. */
bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const bool makes_valid = !MCT_LINUX_IS_LOG && offset == 0;
    if (makes_valid && !mct_linux_flush()) {
        return false;
    }
    if (!mct_linux_put((off_t)slot * MCT_SLOT_BYTES + (off_t)offset, bytes, count)) {
        return false;
    }
    return !(MCT_LINUX_IS_LOG || makes_valid) || mct_linux_flush();
}

/* ---- start ---- */

static int mct_linux_inherited(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

void mct_board_start(void) {
    signal(SIGPIPE, SIG_IGN);
    mct_linux_open_slots();
    linux_board.line = mct_linux_inherited("MCT_LINE");
    linux_board.listener = mct_linux_inherited("MCT_LISTENER");
    if (linux_board.line >= 0 || linux_board.listener >= 0) {
        return; /* restarted: the line is still open */
    }
    if (strcmp(linux_board.port, "pty") == 0) {
        mct_linux_open_pty();
    } else if (strncmp(linux_board.port, "tcp:", 4) == 0) {
        mct_linux_listen(linux_board.port + 4);
    } else {
        mct_linux_open_serial(linux_board.port);
    }
    fflush(stdout);
}

static bool mct_linux_is_count(const char *text) {
    char *end;
    const long number = strtol(text, &end, 10);
    return number >= 1 && number <= 64 && *end == '\0'; /* MCT_MOST_THREADS */
}

int main(int count, char **arguments) {
    linux_board.arguments = arguments;
    for (int i = 1; i < count; i += 2) {
        if (i + 1 < count && strcmp(arguments[i], "--port") == 0) {
            linux_board.port = arguments[i + 1];
        } else if (i + 1 < count && strcmp(arguments[i], "--state") == 0) {
            linux_board.state = arguments[i + 1];
        } else if (i + 1 < count && strcmp(arguments[i], "--threads") == 0 &&
                   mct_linux_is_count(arguments[i + 1])) {
            setenv("MCT_THREADS", arguments[i + 1], 1); /* read by mct_threads.c */
        } else {
            fprintf(
                stderr,
                "usage: %s [--port pty|tcp:PORT|DEVICE[:BAUD]] [--state FILE] [--threads 1..64]\n",
                arguments[0]);
            return MCT_EXIT_USAGE;
        }
    }
    mct_app_run();
    return 0;
}
