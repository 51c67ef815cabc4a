/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_stream_body.h"

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
