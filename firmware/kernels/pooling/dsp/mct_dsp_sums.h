/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a window, four channels at a time. */
#ifndef MCT_DSP_SUMS_H
#define MCT_DSP_SUMS_H

#include "mct_dsp.h"
#include "mct_fixedpoint.h"
#include "mct_window.h"

/* Elements whose sum is an int16. */
#define MCT_SHORT_SUM 256

/* A channel's elements in a window: runs of them. */
typedef struct {
    int32_t runs, length; /* of each; 1 or more */
    int32_t step;         /* from an element to the next one */
    int32_t next;         /* from a run to the next one */
} mct_dsp_runs;

/* The part of a window inside x. from: where its first channel begins. */
static inline mct_dsp_runs mct_dsp_runs_of(const mct_window *window, const mct_shape *of,
                                           const mct_window_part *part, const int8_t **from) {
    const int32_t row = part->first_y + part->rows.begin * window->dilation_h;
    const int32_t column = part->first_x + part->columns.begin * window->dilation_w;
    mct_dsp_runs runs = {
        .runs = part->rows.end - part->rows.begin,
        .length = part->columns.end - part->columns.begin,
        .step = window->dilation_w * of->c,
        .next = window->dilation_h * of->w * of->c,
    };
    *from += (row * of->w + column) * of->c;
    if (runs.runs > 1 && runs.length * runs.step == runs.next) {
        runs.length *= runs.runs;
        runs.runs = 1;
    }
    return runs;
}

/* The sums of four channels next to each other. */
static inline mct_sums4 mct_dsp_sum_four(const mct_dsp_runs *runs, const int8_t *x) {
    const int32_t step = runs->step;
    mct_sums4 sums = {{0, 0, 0, 0}};
    uint32_t even = 0, odd = 0;
    int32_t room = MCT_SHORT_SUM;
    for (int32_t run = 0; run < runs->runs; run++, x += runs->next) {
        const int8_t *at = x;
        for (int32_t left = runs->length; left > 0;) {
            if (room == 0) {
                sums.lane[0] += mct_low(even);
                sums.lane[1] += mct_low(odd);
                sums.lane[2] += mct_high(even);
                sums.lane[3] += mct_high(odd);
                even = odd = 0;
                room = MCT_SHORT_SUM;
            }
            int32_t count = mct_min(left, room);
            left -= count;
            room -= count;
            for (; count > 0; count--, at += step) {
                const uint32_t word = mct_load32(at);
                even = mct_add_even_bytes(even, word);
                odd = mct_add_odd_bytes(odd, word);
            }
        }
    }
    sums.lane[0] += mct_low(even);
    sums.lane[1] += mct_low(odd);
    sums.lane[2] += mct_high(even);
    sums.lane[3] += mct_high(odd);
    return sums;
}

/* The sum of one channel. */
static inline int32_t mct_dsp_sum_one(const mct_dsp_runs *runs, const int8_t *x) {
    int32_t sum = 0;
    for (int32_t run = 0; run < runs->runs; run++, x += runs->next) {
        for (int32_t i = 0; i < runs->length; i++) {
            sum += x[i * runs->step];
        }
    }
    return sum;
}

/* The sums of the channels from c on, 1 to 4 of them; x: the channel 0. Returns how many. */
static __attribute__((noinline)) int32_t mct_dsp_sums_of(const mct_dsp_runs *runs, const int8_t *x,
                                                         int32_t c, int32_t channels,
                                                         mct_sums4 *sums) {
    const int32_t count = mct_min(channels - c, 4), before = 4 - count;
    if (channels < 4) {
        for (int32_t i = 0; i < count; i++) {
            sums->lane[i] = mct_dsp_sum_one(runs, x + c + i);
        }
        return count;
    }
    /* the last ones with those before, so that nothing behind x is read */
    *sums = mct_dsp_sum_four(runs, x + c - before);
    for (int32_t i = 0; before > 0 && i < count; i++) {
        sums->lane[i] = sums->lane[i + before];
    }
    return count;
}

#endif
