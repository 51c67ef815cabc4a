/* SPDX-License-Identifier: Apache-2.0 */
#if !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE 1 /* else there is no number of processors */
#endif
#include "mct_threads.h"

/* A thread that is awake begins after less than a tenth of the time that these take. */
#ifndef MCT_PRODUCTS_OF_A_PART
#define MCT_PRODUCTS_OF_A_PART (INT64_C(1) << 18)
#endif
#define MCT_MOST_THREADS 64

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Of a worker. The system takes its part of it: gcc's thread sanitizer 0.8 MB, for data of the thread.
 * Pages that nobody writes to cost no memory. */
#define MCT_STACK_BYTES (4 << 20)
_Static_assert(MCT_STACK_BYTES >= (1 << 20) + 2 * MCT_MOST_FRAME_BYTES, "the largest frame fits");

/* How long a thread looks for work before it sleeps: most nodes of a step follow sooner. */
#define MCT_AWAKE_NS 100000

/* Workers wait for a round, and take the parts behind the first, one each. `round` and `busy` alone
 * say what others may read; the mutex is for threads that sleep, and for those that wake them. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t begin, done;
    pthread_t workers[MCT_MOST_THREADS];
    int32_t wanted;  /* threads, 0: not known yet */
    int32_t started; /* workers */
    pid_t process;   /* that has started them: a fork has none */
    uint32_t round;
    uint32_t seen[MCT_MOST_THREADS]; /* the round before a worker's first one */
    int32_t busy;                    /* workers that are not done with the round */
    int32_t sleepers;                /* workers that have to be woken */
    int32_t sleeps;                  /* whether the thread that began the round has to be */
    mct_part *run;
    const void *job;
    int32_t parts; /* 0: the workers end */
} pool = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .begin = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
};

static int mct_has_round(uint32_t seen) {
    return __atomic_load_n(&pool.round, __ATOMIC_SEQ_CST) != seen;
}

static int mct_is_done(uint32_t unused) {
    (void)unused;
    return __atomic_load_n(&pool.busy, __ATOMIC_SEQ_CST) == 0;
}

/* Whether it comes true soon; others that want the processor have it meanwhile. */
static int mct_comes_soon(int (*is_true)(uint32_t), uint32_t seen) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 32; i++) {
            if (is_true(seen)) {
                return 1;
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) + now.tv_nsec - begin.tv_nsec <
             MCT_AWAKE_NS);
    return 0;
}

/* Until it is true: who makes it true sees that somebody sleeps, or this thread sees that it is. */
static void mct_sleep(int (*is_true)(uint32_t), uint32_t seen, pthread_cond_t *woken,
                      int32_t *sleepers) {
    pthread_mutex_lock(&pool.mutex);
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    while (!is_true(seen)) {
        pthread_cond_wait(woken, &pool.mutex);
    }
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&pool.mutex);
}

static void mct_wake(pthread_cond_t *woken, int32_t *sleepers) {
    if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST) > 0) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_broadcast(woken);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static void *mct_worker(void *number) {
    const int32_t part = (int32_t)(intptr_t)number;
    uint32_t round = pool.seen[part - 1];
    for (;;) {
        if (!mct_comes_soon(mct_has_round, round)) {
            mct_sleep(mct_has_round, round, &pool.begin, &pool.sleepers);
        }
        round++;
        const int32_t parts = pool.parts;
        if (part < parts) {
            pool.run(pool.job, part, parts);
        }
        if (__atomic_sub_fetch(&pool.busy, 1, __ATOMIC_SEQ_CST) == 0) {
            mct_wake(&pool.done, &pool.sleeps);
        }
        if (parts == 0) {
            return NULL;
        }
    }
}

/* Begins a round, in which every worker that was started looks whether there is a part for it. */
static void mct_threads_begin(mct_part *run, const void *job, int32_t parts) {
    pool.run = run;
    pool.job = job;
    pool.parts = parts;
    __atomic_store_n(&pool.busy, pool.started, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&pool.round, 1, __ATOMIC_SEQ_CST);
    mct_wake(&pool.begin, &pool.sleepers);
}

/* Until all workers are done with the round. */
static void mct_threads_end(void) {
    if (!mct_comes_soon(mct_is_done, 0)) {
        mct_sleep(mct_is_done, 0, &pool.done, &pool.sleeps);
    }
}

/* Forgets what another process has started. */
static void mct_threads_own(void) {
    if (pool.process != getpid()) {
        pool.process = getpid();
        pool.started = pool.busy = pool.sleepers = pool.sleeps = 0;
        pthread_mutex_init(&pool.mutex, NULL);
        pthread_cond_init(&pool.begin, NULL);
        pthread_cond_init(&pool.done, NULL);
    }
}

/* Workers for the parts 1 … parts - 1, or as many as there can be. Signals are for other threads. */
static void mct_threads_start(int32_t parts) {
    pthread_attr_t attributes;
    sigset_t all, before;
    mct_threads_own();
    if (pool.started >= parts - 1) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, MCT_STACK_BYTES);
    while (pool.started < parts - 1) {
        void *number = (void *)(intptr_t)(pool.started + 1);
        pool.seen[pool.started] = pool.round;
        if (pthread_create(&pool.workers[pool.started], &attributes, mct_worker, number) != 0) {
            break;
        }
        pool.started++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mct_threads_set(int32_t threads) {
    mct_threads_own();
    if (pool.started > 0) {
        mct_threads_begin(NULL, NULL, 0);
        while (pool.started > 0) {
            pthread_join(pool.workers[--pool.started], NULL);
        }
    }
    pool.wanted = threads < 1 ? 1 : threads > MCT_MOST_THREADS ? MCT_MOST_THREADS : threads;
}

int32_t mct_threads_for(int64_t products) {
    if (products < 2 * MCT_PRODUCTS_OF_A_PART) {
        return 1;
    }
    if (pool.wanted == 0) {
        const char *told = getenv("MCT_THREADS");
        mct_threads_set(told != NULL ? atoi(told) : (int32_t)sysconf(_SC_NPROCESSORS_ONLN));
    }
    const int64_t worth = products / MCT_PRODUCTS_OF_A_PART;
    return worth < pool.wanted ? (int32_t)worth : pool.wanted;
}

void mct_threads_run(mct_part *run, const void *job, int32_t parts) {
    if (parts > 1) {
        mct_threads_start(parts);
        mct_threads_begin(run, job, parts);
    }
    run(job, 0, parts);
    if (parts > 1) {
        for (int32_t part = pool.started + 1; part < parts; part++) {
            run(job, part, parts); /* for want of a thread */
        }
        mct_threads_end();
    }
}

#else

void mct_threads_set(int32_t threads) {
    (void)threads;
}

int32_t mct_threads_for(int64_t products) {
    (void)products;
    return 1;
}

void mct_threads_run(mct_part *run, const void *job, int32_t parts) {
    for (int32_t part = 0; part < parts; part++) {
        run(job, part, parts);
    }
}

#endif
