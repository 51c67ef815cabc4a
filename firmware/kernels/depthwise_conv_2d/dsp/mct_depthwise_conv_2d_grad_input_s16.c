/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise_phase.h"
#include "mct_dsp_gradient16.h"
#include "mct_grad_s16.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

typedef struct {
    mct_gradient_writer *writer;
    int16_t *values; /* dx */
    mct_depthwise_target target;
    mct_factor16 factors[4];
} mct_gathered;

static void mct_begin_gathered(void *result, const mct_depthwise_block *b) {
    mct_gathered *to = result;
    mct_factors16_of(to->writer, b->c, b->channels, to->factors);
}

static void mct_take_gathered(void *result, mct_depthwise_block *b) {
    mct_gathered *to = result;
    const int32_t rows = mct_depthwise_is_whole(&to->target, b) ? 1 : b->rows;
    const int32_t *found = mct_depthwise_block_sums(b);
    for (int32_t row = 0; row < rows; row++) {
        const mct_dsp_sums sums = {found + row * b->columns, MCT_POOL_WORDS, 1};
        const mct_depthwise_place place = mct_depthwise_place_of(&to->target, b, row);
        mct_dsp_write_sums16(to->writer, to->factors, sums, b->c, b->channels, place.first,
                             place.step, place.count, to->values);
    }
}

/* The sums of a position, for any window and channel multiplier. */
static void mct_position_sums(const mct_depthwise_conv_2d_grad_input_s16_params *p,
                              int32_t position, const int16_t *dy, const int8_t *w, int64_t *sums) {
    const int32_t multiplier = p->dy.c / p->dx.c;
    for (int32_t i = 0; i < p->dx.c; i++) {
        sums[i] = 0;
    }
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, position / p->dx.w, position % p->dx.w, tap);
        for (int32_t c = 0; from >= 0 && c < p->dy.c; c++) {
            sums[c / multiplier] += (int64_t)dy[from * p->dy.c + c] * w[tap * p->dy.c + c];
        }
    }
}

/* Two pixels of four channels, two words each, as pairs to the planes. */
static inline void mct_spread16(const uint32_t *a, const uint32_t *b, uint32_t *to) {
    to[0] = mct_lows(a[0], b[0]);
    to[MCT_POOL_WORDS] = mct_highs(a[0], b[0]);
    to[2 * MCT_POOL_WORDS] = mct_lows(a[1], b[1]);
    to[3 * MCT_POOL_WORDS] = mct_highs(a[1], b[1]);
}

/* The channels of a pixel, 1 to 4, and zeros. */
static inline void mct_pixel16(const mct_depthwise_block *b, const int8_t *from, uint32_t *words) {
    if (b->channels == 4) {
        words[0] = mct_load32(from);
        words[1] = mct_load32(from + 4);
        return;
    }
    words[0] = mct_load_part(from, mct_min(2 * b->channels, 4));
    words[1] = mct_load_part(from + 4, mct_max(2 * b->channels - 4, 0));
}

static void mct_load_s16(const mct_depthwise_block *b, const int8_t *from, mct_depthwise_span span,
                         int32_t rows, uint32_t *to) {
    const int32_t pixel = mct_depthwise_column_bytes(b), row_bytes = mct_depthwise_row_bytes(b);
    const int32_t lead = span.before % 2, end = span.count + lead;
    to += span.before / 2;
    for (; rows > 0; rows--, from += row_bytes, to += b->cut.pairs) {
        const int8_t *at = from - lead * pixel;
        for (int32_t i = 0; i < end; i += 2, at += 2 * pixel) {
            uint32_t first[2] = {0, 0}, second[2] = {0, 0};
            if (i >= lead) {
                mct_pixel16(b, at, first);
            }
            if (i + 1 < end) {
                mct_pixel16(b, at + pixel, second);
            }
            mct_spread16(first, second, to + i / 2);
        }
    }
}

void mct_depthwise_conv_2d_grad_input_s16(const mct_depthwise_conv_2d_grad_input_s16_params *p,
                                          const mct_step *step, const int16_t *dy,
                                          const mct_exponent *dy_exponent, const int8_t *w,
                                          const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                          int64_t *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S16, mask, exponent);
    mct_gathered result = {.writer = &writer, .values = dx, .target = {.dx = &p->dx}};
    mct_depthwise_block block;
    block.d = (mct_depthwise){
        .from = p->dy,
        .factor = 1,
        .tail = 4, /* a sum for each position */
        .element_bytes = 2,
        .load = mct_load_s16,
        .x = (const int8_t *)dy,
        .aside = dy == dx ? (int8_t *)scratch : NULL,
    };
    const int done = mct_depthwise_gather(&p->window, w, &result.target, &block, mct_begin_gathered,
                                          mct_take_gathered, &result);
    if (!done && dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, &p->window, w, dx, (int16_t *)(void *)scratch, &writer);
    } else if (!done) {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_position_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s16(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_gradient_end(&writer, 15);
}
