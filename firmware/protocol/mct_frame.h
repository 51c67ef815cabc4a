/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on a byte stream: 00 COBS(content · CRC-32) 00. See docs/protocol.md.
 *
 * COBS: Cheshire and Baker, "Consistent Overhead Byte Stuffing", IEEE/ACM Transactions on
 * Networking 7(2), 1999. */
#ifndef MCT_FRAME_H
#define MCT_FRAME_H

#include <stdint.h>

#define MCT_MAX_BODY 512u
#define MCT_HEADER_BYTES 8u
#define MCT_CRC_BYTES 4u
#define MCT_FRAME_BYTES (MCT_HEADER_BYTES + MCT_MAX_BODY + MCT_CRC_BYTES)

/* A frame as it arrives, decoded byte by byte; between frames its bytes may be used otherwise. */
typedef struct {
    uint8_t bytes[MCT_FRAME_BYTES];
    uint16_t count;   /* decoded so far */
    uint8_t left;     /* bytes of the current COBS block that are still to come */
    uint8_t zero;     /* 1: the current block ends with a zero, unless it is the last */
    uint8_t begun;    /* 1: there was a byte since the last delimiter */
    uint8_t too_long; /* 1: bytes were dropped */
} mct_frame;

typedef enum {
    MCT_FRAME_NONE,    /* not complete */
    MCT_FRAME_GOOD,    /* header and body are in bytes, count excludes the CRC */
    MCT_FRAME_DAMAGED, /* something ended that was no frame */
} mct_frame_event;

void mct_frame_clear(mct_frame *frame);

/* Takes in a byte. After GOOD or DAMAGED the frame must be cleared before the next byte. */
mct_frame_event mct_frame_receive(mct_frame *frame, uint8_t byte);

/* Sends bytes[0 … count) as a frame; writes the CRC behind them: count <= MCT_FRAME_BYTES - 4. */
void mct_frame_send(uint8_t *bytes, uint32_t count);

#endif
