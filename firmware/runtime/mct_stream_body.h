/* SPDX-License-Identifier: Apache-2.0 */
/* A strip of a segment, for mct_stream.c and mct_stream_some.c. */
#include "mct_stream.h"

#include <string.h>

static mct_progress *progress_of(const mct_segment *segment, uint8_t *arena) {
    return (mct_progress *)(void *)(arena + segment->progress);
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Rows that all readers are done with go; false if there is no room for `count` more even so. */
static bool make_room(const mct_segment *segment, uint8_t *arena, uint32_t tensor, int32_t count) {
    const mct_stream_tensor *t = &segment->tensors[tensor];
    mct_progress *done = progress_of(segment, arena);
    mct_progress *p = &done[tensor];
    if (p->next - p->first + count <= t->room) {
        return true;
    }
    int32_t oldest = p->next;
    for (uint32_t i = 0; i < t->reader_count; i++) {
        const mct_stage *reader = &segment->stages[segment->links[t->first_reader + i]];
        const int32_t first = done[reader->output].next;
        if (first < segment->tensors[reader->output].rows) {
            oldest = least(oldest, first * reader->stride - reader->pad);
        }
    }
    if (p->next - oldest + count > t->room) {
        return false;
    }
    int8_t *rows = (int8_t *)arena + t->place;
    const uint32_t gone = (uint32_t)(oldest - p->first) * t->row_bytes;
    memmove(rows, rows + gone, (uint32_t)(p->next - oldest) * t->row_bytes);
    p->first = (int16_t)oldest;
    return true;
}

/* Computes a strip, or what is left of the output, if its inputs are there and there is room. */
static bool advance(const mct_segment *segment, uint8_t *arena, const mct_stage *stage) {
    const mct_stream_tensor *y = &segment->tensors[stage->output];
    mct_progress *done = progress_of(segment, arena);
    mct_progress *out = &done[stage->output];
    const int32_t count = least(stage->strip, y->rows - out->next);
    if (count == 0) {
        return false;
    }
    const uint16_t *inputs = &segment->links[stage->first_input];
    const int32_t begin = out->next * stage->stride - stage->pad;
    const int32_t end = begin + (count - 1) * stage->stride + stage->span;
    for (uint32_t i = 0; i < stage->input_count; i++) {
        if (least(end, segment->tensors[inputs[i]].rows) > done[inputs[i]].next) {
            return false;
        }
    }
    if (!make_room(segment, arena, stage->output, count)) {
        return false;
    }
    mct_strip strip;
    const int32_t rows = segment->tensors[inputs[0]].rows;
    const int32_t first = least(begin < 0 ? 0 : begin, rows);
    const int32_t behind = least(end < 0 ? 0 : end, rows);
    strip.x_rows = behind - first;
    strip.y_rows = count;
    strip.pad_top = begin < 0 ? -begin : 0;
    for (uint32_t i = 0; i < stage->input_count; i++) {
        const mct_stream_tensor *x = &segment->tensors[inputs[i]];
        /* of no rows the first byte: behind the last row y may begin, and a kernel would take it for x */
        const uint32_t row = strip.x_rows > 0 ? (uint32_t)(first - done[inputs[i]].first) : 0;
        strip.x[i] = (const int8_t *)arena + x->place + row * x->row_bytes;
    }
    strip.y = (int8_t *)arena + y->place + (uint32_t)(out->next - out->first) * y->row_bytes;
    out->next = (int16_t)(out->next + count);
    stage->compute(&strip);
    return true;
}
