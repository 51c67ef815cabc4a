/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise_phase.h"
#include "mct_dsp_gradient.h"
#include "mct_grad_s8.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

typedef struct {
    mct_dsp_writer writer;
    mct_depthwise_target target;
    mct_factor factors[4];
} mct_gathered;

static void mct_begin_gathered(void *result, const mct_depthwise_block *b) {
    mct_gathered *to = result;
    mct_factors_of(to->writer.writer, b->c, b->channels, to->factors);
}

static void mct_take_gathered(void *result, mct_depthwise_block *b) {
    mct_gathered *to = result;
    const int32_t rows = mct_depthwise_is_whole(&to->target, b) ? 1 : b->rows;
    const int32_t *found = mct_depthwise_block_sums(b);
    for (int32_t row = 0; row < rows; row++) {
        const mct_dsp_sums sums = {found + row * b->columns, MCT_POOL_WORDS, 1};
        const mct_depthwise_place place = mct_depthwise_place_of(&to->target, b, row);
        mct_dsp_write_sums(&to->writer, to->factors, sums, b->c, b->channels, place.first,
                           place.step, place.count);
    }
}

/* The sums of a position, for any window and channel multiplier. */
static void mct_position_sums(const mct_depthwise_conv_2d_grad_input_s8_params *p, int32_t position,
                              const int8_t *dy, const int8_t *w, int32_t *sums) {
    const int32_t multiplier = p->dy.c / p->dx.c;
    for (int32_t i = 0; i < p->dx.c; i++) {
        sums[i] = 0;
    }
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, position / p->dx.w, position % p->dx.w, tap);
        for (int32_t c = 0; from >= 0 && c < p->dy.c; c++) {
            sums[c / multiplier] += dy[from * p->dy.c + c] * w[tap * p->dy.c + c];
        }
    }
}

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_gathered result = {.writer = mct_dsp_writer_of(&writer, dx), .target = {.dx = &p->dx}};
    mct_depthwise_block block;
    block.d = (mct_depthwise){
        .from = p->dy,
        .factor = 1,
        .tail = 4, /* a sum for each position */
        .element_bytes = 1,
        .load = mct_depthwise_load_s8,
        .x = dy,
        .aside = dy == dx ? (int8_t *)scratch : NULL,
    };
    const int done = mct_depthwise_gather(&p->window, w, &result.target, &block, mct_begin_gathered,
                                          mct_take_gathered, &result);
    if (!done && dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, &p->window, w, dx, (int8_t *)scratch, &writer);
    } else if (!done) {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_position_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s8(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_dsp_writer_end(&result.writer, 7);
}
