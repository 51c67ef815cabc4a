/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_helium_depthwise.h"
#include "mct_helium_requantize.h"

/* Any requantization, and any limits with a mask. */
static void mct_take_any(const mct_helium_output *out, int32_t c, const int32_t *sums,
                         int32_t start, int32_t i, int32_t count) {
    for (int32_t n = 0; n < count; n++, i += out->channels) {
        mct_helium_store_one(out, (int32_t)((uint32_t)start + (uint32_t)sums[n]), c, i);
    }
}

static inline __attribute__((always_inline)) void mct_take_vectors(const mct_helium_output *out,
                                                                   int32_t c, const int32_t *sums,
                                                                   int32_t start, int32_t i,
                                                                   int32_t count, int noted) {
    const mct_requantize *q = out->q;
    const int32_t m = q->per_channel ? c : 0, channels = out->channels;
    const int32_t mult = q->mult_q31[m], shift = q->shift[m], zero_point = q->zero_point;
    const int32x4_t low = vdupq_n_s32(q->low), high = vdupq_n_s32(q->high);
    const uint32x4_t lanes = vmulq_n_u32(mct_helium_numbers_u32(), (uint32_t)channels);
    const uint32x4_t eighths = vshrq_n_u32(lanes, 3);
    int8_t *y = out->y + i;
    for (; count > 0; count -= 4, sums += 4, y += 4 * channels) {
        const int32x4_t v = vqrdmulhq_n_s32(vaddq_n_s32(vldrwq_s32(sums), start), mult);
        const int32x4_t scaled = vrshlq_n_s32(vaddq_s32(v, vshrq_n_s32(v, 31)), shift);
        const int32x4_t value = vaddq_n_s32(scaled, zero_point);
        const int32x4_t clamped = vminq_s32(vmaxq_s32(value, low), high);
        if (count >= 4) {
            vstrbq_scatter_offset_s32(y, lanes, clamped);
        } else {
            vstrbq_scatter_offset_p_s32(y, lanes, clamped, vctp32q((uint32_t)count));
        }
        const mve_pred16_t same = vcmpeqq_s32(value, clamped);
        if (noted && channels % 8 == 0 && count >= 4) { /* the same bit of bytes C / 8 apart */
            uint8_t *mask = out->mask + (i >> 3);
            const uint32x4_t bytes = vldrbq_gather_offset_u32(mask, eighths);
            const uint32x4_t bit = vdupq_n_u32(1u << (i & 7));
            vstrbq_scatter_offset_u32(mask, eighths, vorrq_m_u32(bytes, bytes, bit, same));
            i += 4 * channels;
        } else if (noted) {
            uint32_t passes = mct_helium_bits(same);
            for (int32_t n = mct_min(count, 4); n > 0; n--, i += channels, passes >>= 1) {
                out->mask[i >> 3] = (uint8_t)(out->mask[i >> 3] | (passes & 1u) << (i & 7));
            }
        }
    }
}

/* Four windows' sums at a time become four bytes at once. relu: what is negative is the lower limit
 * anyway, however a half is rounded. */
static inline __attribute__((always_inline)) void
mct_filter(const mct_helium_output *out, int32_t c, const mct_helium_strip *s, int32_t vectors,
           int32_t start, int32_t position, int32_t rows, int relu) {
    const mct_requantize *q = out->q;
    const int32_t m = q->per_channel ? c : 0, channels = out->channels;
    const int32_t mult = q->mult_q31[m], shift = q->shift[m], zero_point = q->zero_point;
    const int32x4_t low = vdupq_n_s32(q->low), high = vdupq_n_s32(q->high);
    const uint32x4_t lanes = vmulq_n_u32(mct_helium_numbers_u32(), (uint32_t)channels);
    const int32_t step = s->step, stride_h = s->d->stride_h, columns = s->columns;
    int8x16_t w[4];
    mct_strip_vectors(s, vectors, w);
    const int8_t *row = s->bytes;
    int8_t *y = out->y + position * channels + c;
    for (; rows > 0; rows--, row += stride_h) {
        const int8_t *from = row;
        for (int32_t n = columns; n > 0; n -= 4, y += 4 * channels) {
            const int32x4_t sums = vaddq_n_s32(mct_helium_windows(&from, step, w, vectors), start);
            int32x4_t v = vqrdmulhq_n_s32(sums, mult);
            if (!relu) {
                v = vaddq_s32(v, vshrq_n_s32(v, 31));
            }
            const int32x4_t value = vaddq_n_s32(vrshlq_n_s32(v, shift), zero_point);
            vstrbq_scatter_offset_s32(y, lanes, vminq_s32(vmaxq_s32(value, low), high));
        }
    }
}

/* For windows of one vector or two, and rows of whole vectors; 0 if it is not done. */
static inline int mct_filtered(const mct_helium_output *out, int32_t c, const mct_helium_strip *s,
                               int32_t start, int32_t row, int32_t rows) {
    if (s->columns % 4 != 0 || s->columns < s->d->columns || s->vectors > 2) {
        return 0;
    }
    const int32_t position = row * s->d->columns;
    const int relu = out->q->low >= out->q->zero_point;
    if (s->vectors == 1 && relu) {
        mct_filter(out, c, s, 1, start, position, rows, 1);
    } else if (s->vectors == 1) {
        mct_filter(out, c, s, 1, start, position, rows, 0);
    } else if (relu) {
        mct_filter(out, c, s, 2, start, position, rows, 1);
    } else {
        mct_filter(out, c, s, 2, start, position, rows, 0);
    }
    return 1;
}

static void mct_take_filtered(void *result, int32_t c, mct_helium_strip *s, int32_t row,
                              int32_t rows) {
    const mct_helium_output *out = result;
    const uint32_t zeros = (uint32_t)(s->d->zero_point * s->sum);
    const int32_t start = (int32_t)((uint32_t)out->b[c] - zeros);
    const int is_short = mct_helium_is_short(out->q, c);
    if (is_short && out->mask == NULL && mct_filtered(out, c, s, start, row, rows)) {
        return;
    }
    const int32_t most = mct_strip_most_rows(s);
    for (int32_t n = 0; n < rows; n += most) {
        const int32_t some = mct_min(rows - n, most), count = some * s->columns;
        const int32_t i = ((row + n) * s->d->columns + s->column) * out->channels + c;
        mct_strip_sums(s, n, some);
        if (!is_short) {
            mct_take_any(out, c, s->sums, start, i, count);
        } else if (out->mask == NULL) {
            mct_take_vectors(out, c, s->sums, start, i, count, 0);
        } else {
            mct_take_vectors(out, c, s->sums, start, i, count, 1);
        }
    }
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    const mct_window *win = &p->window;
    const mct_helium_depthwise d = {
        .from = &p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .kernel_h = win->kernel_h,
        .kernel_w = win->kernel_w,
        .stride_h = win->stride_h,
        .stride_w = win->stride_w,
        .pad_top = win->pad_top,
        .pad_left = win->pad_left,
        .upsample_h = 1,
        .upsample_w = 1,
        .zero_point = p->x_zero_point,
        .x = x,
        .w = w,
        .aside = x == y ? scratch : NULL,
    };
    if (p->x.c == p->y.c && win->dilation_h == 1 && win->dilation_w == 1 &&
        mct_helium_has_strips(&d)) {
        mct_helium_output out =
            mct_helium_output_of(&p->requantize, b, p->y.h * p->y.w, p->y.c, y, mask);
        mct_helium_depthwise_run(&d, mct_take_filtered, &out);
        return;
    }
    mct_depthwise_any(p, x, w, b, y, mask, scratch);
}
