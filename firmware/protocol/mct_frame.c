/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_frame.h"

#include "mct_board.h"
#include "mct_bytes.h"
#include "mct_state.h"

#define MCT_COBS_BLOCK 255u /* the code of a block of 254 bytes without a zero behind them */

void mct_frame_clear(mct_frame *frame) {
    frame->count = 0;
    frame->left = 0;
    frame->zero = 0;
    frame->begun = 0;
    frame->too_long = 0;
}

static void mct_frame_append(mct_frame *frame, uint8_t byte) {
    if (frame->count < MCT_FRAME_BYTES) {
        frame->bytes[frame->count++] = byte;
    } else {
        frame->too_long = 1;
    }
}

static mct_frame_event mct_frame_end(mct_frame *frame) {
    if (!frame->begun) {
        return MCT_FRAME_NONE;
    }
    if (frame->left != 0 || frame->too_long || frame->count < MCT_HEADER_BYTES + MCT_CRC_BYTES) {
        return MCT_FRAME_DAMAGED;
    }
    frame->count = (uint16_t)(frame->count - MCT_CRC_BYTES);
    const uint32_t crc = mct_crc32(0, frame->bytes, frame->count);
    return crc == mct_get32(frame->bytes + frame->count) ? MCT_FRAME_GOOD : MCT_FRAME_DAMAGED;
}

mct_frame_event mct_frame_receive(mct_frame *frame, uint8_t byte) {
    if (byte == 0) {
        return mct_frame_end(frame);
    }
    if (frame->left != 0) {
        mct_frame_append(frame, byte);
        frame->left--;
    } else { /* the code of the next block: its length plus 1 */
        if (frame->zero) {
            mct_frame_append(frame, 0);
        }
        frame->left = (uint8_t)(byte - 1);
        frame->zero = byte != MCT_COBS_BLOCK;
    }
    frame->begun = 1;
    return MCT_FRAME_NONE;
}

void mct_frame_send(uint8_t *bytes, uint32_t count) {
    static const uint8_t delimiter = 0;
    mct_put32(bytes + count, mct_crc32(0, bytes, count));
    const uint32_t end = count + MCT_CRC_BYTES;
    mct_board_send(&delimiter, 1);
    uint32_t first = 0;
    for (;;) {
        uint32_t last = first;
        while (last < end && bytes[last] != 0 && last - first < MCT_COBS_BLOCK - 1) {
            last++;
        }
        const uint8_t code = (uint8_t)(last - first + 1);
        mct_board_send(&code, 1);
        mct_board_send(bytes + first, last - first);
        if (last == end) {
            break;
        }
        first = code == MCT_COBS_BLOCK ? last : last + 1; /* such a block stands for no zero */
    }
    mct_board_send(&delimiter, 1);
}
