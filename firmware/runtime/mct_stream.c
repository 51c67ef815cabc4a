/* SPDX-License-Identifier: Apache-2.0 */
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

/* Until no stage can go on. */
static void run(const mct_segment *segment, uint8_t *arena) {
    bool went_on = true;
    while (went_on) {
        went_on = false;
        for (uint32_t i = 0; i < segment->stage_count; i++) {
            went_on |= advance(segment, arena, &segment->stages[i]);
        }
    }
}

/* Whether a reader of tensor 0 has all rows of its next strip; when a row of that tensor came, no other
 * stage can begin. Not inlined: it would add to the stack under the kernels. */
static __attribute__((noinline)) bool can_begin(const mct_segment *segment, uint8_t *arena) {
    const mct_stream_tensor *x = &segment->tensors[0];
    const mct_progress *done = progress_of(segment, arena);
    for (uint32_t i = 0; i < x->reader_count; i++) {
        const mct_stage *stage = &segment->stages[segment->links[x->first_reader + i]];
        const int32_t next = done[stage->output].next;
        const int32_t count = least(stage->strip, segment->tensors[stage->output].rows - next);
        const int32_t end = (next + count - 1) * stage->stride - stage->pad + stage->span;
        if (count > 0 && least(end, x->rows) <= done[0].next) {
            return true;
        }
    }
    return false;
}

void mct_segment_start(const mct_segment *segment, uint8_t *arena, bool is_fed) {
    mct_progress *done = progress_of(segment, arena);
    for (uint32_t i = 0; i < segment->tensor_count; i++) {
        const bool is_there = i < segment->source_count && !is_fed;
        done[i].first = 0;
        done[i].next = is_there ? segment->tensors[i].rows : 0;
    }
}

void mct_segment_compute(const mct_segment *segment, uint8_t *arena) {
    mct_segment_start(segment, arena, false);
    run(segment, arena);
}

void mct_segment_feed(const mct_segment *segment, uint8_t *arena, uint32_t fed, const int8_t *bytes,
                      uint32_t count) {
    const mct_stream_tensor *x = &segment->tensors[0];
    mct_progress *p = progress_of(segment, arena);
    uint32_t column = fed % x->row_bytes;
    while (count > 0) {
        if (column == 0) {
            (void)make_room(segment, arena, 0, 1); /* the plan has it */
        }
        const uint32_t left = x->row_bytes - column;
        const uint32_t now = count < left ? count : left;
        const uint32_t row = (uint32_t)(p->next - p->first);
        memcpy(arena + x->place + row * x->row_bytes + column, bytes, now);
        bytes += now;
        count -= now;
        column += now;
        if (column == x->row_bytes) {
            column = 0;
            p->next++;
            if (can_begin(segment, arena)) {
                run(segment, arena);
            }
        }
    }
}
