/* libFuzzer's target for all that reads bytes from the line. The input is either bytes as they come,
 * or a list of requests that get their framing and checksum here, so that they reach the commands.
 *
 * Watched besides ASan and UBSan: a step is trained only from the position it names, tensors are chosen
 * only where that is due, flash is only written where it was erased, and after any input the device
 * still answers. */
#include <stdlib.h>
#include <string.h>

#include "fake/fake.h"
#include "mct_bytes.h"
#include "mct_frame.h"
#include "mct_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* COBS of a request with its CRC, written apart from mct_frame_send. */
static void send_request(const uint8_t *content, uint32_t count) {
    uint8_t plain[MCT_FRAME_BYTES + 64];
    memcpy(plain, content, count);
    mct_put32(plain + count, mct_crc32(0, content, count));
    uint8_t coded[sizeof plain + 8];
    uint32_t end = 1, code = 0;
    coded[0] = 1;
    for (uint32_t i = 0; i < count + 4; i++) {
        if (plain[i] != 0) {
            coded[end++] = plain[i];
            coded[code]++;
        }
        if (plain[i] == 0 || coded[code] == 255) {
            code = end;
            coded[end++] = 1;
        }
    }
    coded[end++] = 0;
    fake_receive(coded, end);
}

static void expect(int condition) {
    if (!condition) {
        abort();
    }
}

/* A fresh session must be answered, whatever came before. */
static void expect_answer(void) {
    static uint8_t answer[1 << 16];
    const uint8_t zero = 0;
    fake_receive(&zero, 1);
    (void)fake_sent(answer, sizeof answer);
    for (uint16_t session = 0xFFF0; session < 0xFFF2; session++) { /* one of two is new */
        uint8_t request[MCT_HEADER_BYTES] = {MCT_PROTOCOL_VERSION, MCT_COMMAND_IDENTIFY};
        mct_put16(request + 2, session);
        send_request(request, sizeof request);
    }
    expect(fake_sent(answer, sizeof answer) > 2 * (MCT_HEADER_BYTES + 60));
}

/* A whole sample, in two pieces; returns the sequence number of the last. */
static uint16_t send_sample(uint16_t sequence) {
    for (uint32_t offset = 0; offset < MCT_INPUT_BYTES; offset += MCT_INPUT_BYTES / 2) {
        uint8_t request[MCT_HEADER_BYTES + 4 + MCT_INPUT_BYTES / 2] = {MCT_PROTOCOL_VERSION,
                                                                       MCT_COMMAND_SAMPLE};
        mct_put16(request + 2, 7);
        mct_put16(request + 4, ++sequence);
        mct_put32(request + MCT_HEADER_BYTES, offset);
        send_request(request, sizeof request);
    }
    return sequence;
}

#ifdef MCT_LABEL_BYTES
/* A label for each position, all but the first 0. */
static uint16_t send_labels(uint16_t sequence, uint8_t first) {
    uint8_t request[MCT_HEADER_BYTES + 4 + MCT_LABEL_BYTES] = {MCT_PROTOCOL_VERSION,
                                                               MCT_COMMAND_LABELS};
    mct_put16(request + 2, 7);
    mct_put16(request + 4, ++sequence);
    request[MCT_HEADER_BYTES + 4] = first;
    send_request(request, sizeof request);
    return sequence;
}
#endif

/* What SELECT may do: choose where its period ends its windows, from a share that there is. */
static void expect_due(const uint8_t *body, uint32_t position) {
    const uint32_t share_q16 = mct_get32(body), every = mct_get32(body + 4);
    expect(share_q16 >= FAKE_LEAST_SHARE && share_q16 <= MCT_SELECTION_WHOLE_Q16);
    expect(mct_selection_is_sound(every, MCT_SAMPLES_PER_UPDATE));
    expect(position % every == 2 * mct_selection_look(every, MCT_SAMPLES_PER_UPDATE));
}

static void requests(const uint8_t *data, size_t size) {
    uint16_t sequence = 0;
    while (size >= 4) {
        uint8_t request[MCT_FRAME_BYTES + 32] = {MCT_PROTOCOL_VERSION, data[0]};
        uint32_t count = (uint32_t)data[1] | (uint32_t)(data[2] & 3) << 8;
        const uint8_t twist = data[3];
        data += 4;
        size -= 4;
        count = count < size ? count : (uint32_t)size;
        count = count < MCT_MAX_BODY + 16 ? count : MCT_MAX_BODY + 16;
        const bool takes_sample =
            request[1] == MCT_COMMAND_TRAIN || request[1] == MCT_COMMAND_COLLECT;
        if (takes_sample && (twist & 8)) {
            sequence = send_sample(sequence);
#ifdef MCT_LABEL_BYTES
            if (twist & 16) { /* 1, 5, 9, ignored, or none that there is */
                sequence = send_labels(sequence, (uint8_t)(twist & 32 ? 255 : twist >> 4));
            }
#endif
        }
        mct_put16(request + 2, twist & 1 ? (uint16_t)twist : 7); /* mostly session 7 */
        mct_put16(request + 4, twist & 2 ? sequence : ++sequence);
        memcpy(request + MCT_HEADER_BYTES, data, count);
        data += count;
        size -= count;
        if (request[1] == MCT_COMMAND_TRAIN && (twist & 4)) {
            mct_put32(request + MCT_HEADER_BYTES + 4, fake_position());
        }
        const uint32_t chosen = fake_chosen;
        const uint32_t trained = fake_trained(), position = fake_position();
        const uint32_t restarts = fake_restarts();
        send_request(request, MCT_HEADER_BYTES + count);
        if (fake_chosen != chosen) {
            expect(request[1] == MCT_COMMAND_SELECT && fake_chosen == chosen + 1);
            expect_due(request + MCT_HEADER_BYTES, position);
        }
        if (fake_trained() != trained && fake_restarts() == restarts &&
            request[1] == MCT_COMMAND_TRAIN) {
            expect(fake_trained() == trained + 1 && fake_position() == position + 1);
            expect(mct_get32(request + MCT_HEADER_BYTES + 4) == position);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fake_erase_flash();
    fake_begin();
    if (size == 0) {
        return 0;
    }
    if (data[0] & 1) {
        requests(data + 1, size - 1);
    } else {
        fake_receive(data + 1, (uint32_t)(size - 1));
    }
    expect_answer();
    return 0;
}
