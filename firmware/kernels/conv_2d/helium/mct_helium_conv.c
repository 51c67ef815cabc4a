/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_helium_conv.h"

/* Puts the trained columns in the place of the block's own, in scratch. */
static const int8_t *mct_merged(const mct_helium_conv *job, const int8_t *rows) {
    const mct_trained_columns *t = job->columns_trained;
    const int32_t columns = job->columns.channels;
    const int32_t taps = job->depth / columns;
    const int8_t *from = job->trained + job->o * taps * t->columns;
    int8_t *to = job->scratch;
    mct_helium_copy(to, rows, job->outs * job->depth);
    for (int32_t i = 0; i < job->outs * taps; i++, from += t->columns, to += columns) {
        if (t->channels == NULL) {
            mct_helium_copy(to, from, t->columns);
            continue;
        }
        for (int32_t j = 0; j < t->columns; j++) {
            to[t->channels[j]] = from[j];
        }
    }
    return job->scratch;
}

/* Four rows, and their sums' starts: all products are with x, not with x - x_zero_point. */
static mct_helium_rows mct_quad_of(const mct_helium_conv *job, const int8_t *rows, int32_t i) {
    const int32_t last = job->outs - 1, depth = job->depth;
    const int32_t *b = job->out.b + job->o;
    const int32_t i1 = mct_min(i + 1, last), i2 = mct_min(i + 2, last), i3 = mct_min(i + 3, last);
    mct_helium_rows quad = {
        .w0 = rows + i * depth,
        .w1 = rows + i1 * depth,
        .w2 = rows + i2 * depth,
        .w3 = rows + i3 * depth,
        .depth = depth,
    };
    int32_t sums[4];
    vstrwq_s32(sums, vmulq_n_s32(mct_helium_row_sums(&quad), job->columns.zero_point));
    quad.sum0 = (int32_t)((uint32_t)b[i] - (uint32_t)sums[0]);
    quad.sum1 = (int32_t)((uint32_t)b[i1] - (uint32_t)sums[1]);
    quad.sum2 = (int32_t)((uint32_t)b[i2] - (uint32_t)sums[2]);
    quad.sum3 = (int32_t)((uint32_t)b[i3] - (uint32_t)sums[3]);
    return quad;
}

static void mct_begin_block(mct_helium_conv *job, int32_t o, int32_t end) {
    job->o = o;
    job->outs = mct_min(end - o, job->most_outs);
    const int8_t *rows = job->w + o * job->depth;
    if (job->trained != NULL) {
        rows = mct_merged(job, rows);
    }
    for (int32_t i = 0; i < job->outs; i += 4) {
        job->quads[i / 4] = mct_quad_of(job, rows, i);
    }
}

/* Any requantization, any number of channels. */
static void mct_store_any(const mct_helium_conv *job, int32_t quad, int32x4_t sums,
                          int32_t position) {
    const int32_t c = job->o + 4 * quad;
    const int32_t count = mct_min(job->outs - 4 * quad, 4);
    int32_t four[4];
    vstrwq_s32(four, sums);
    for (int32_t l = 0; l < count; l++) {
        mct_helium_store_one(&job->out, four[l], c + l, position * job->out.channels + c + l);
    }
}

/* How the sums of a quad become int8: 0 the general way, 1 by vectors, 2 with a mask's half bytes. */
static int32_t mct_way(const mct_helium_conv *job, int32_t quad) {
    const mct_helium_output *out = &job->out;
    const int32_t c = job->o + 4 * quad;
    if (job->outs - 4 * quad < 4) {
        return 0;
    }
    for (int32_t l = 0; l < 4; l++) {
        if (!mct_helium_is_short(out->q, c + l)) {
            return 0;
        }
    }
    if (out->mask == NULL) {
        return 1;
    }
    return (out->channels | c) % 4 == 0 ? 2 : 0;
}

/* Four channels at `count` positions, whose columns follow `step` bytes after each other. */
static void mct_quad_plain(const mct_helium_conv *job, int32_t n, const int8_t *x, int32_t step,
                           int8_t *y, int32_t count) {
    const mct_requantize *q = job->out.q;
    mct_helium_quad quad = {
        .rows = job->quads[n],
        .x_step = step,
        .y_step = job->out.channels,
        .zero_point = q->zero_point,
        .low = q->low,
        .high = q->high,
    };
    for (int32_t l = 0; l < 4; l++) {
        const int32_t m = q->per_channel ? job->o + 4 * n + l : 0;
        quad.mult_q31[l] = q->mult_q31[m];
        quad.shift[l] = q->shift[m];
    }
    mct_helium_positions(&quad, x, y, count);
}

/* The same with a mask, of which they have half a byte. */
static void mct_quad_noted(const mct_helium_conv *job, int32_t n, const int8_t *x, int32_t step,
                           int32_t i, int32_t count) {
    const mct_helium_output *out = &job->out;
    const mct_requantize *q = out->q;
    const int32_t c = job->o + 4 * n;
    const mct_helium_rows *rows = &job->quads[n];
    const int32x4_t mult =
        q->per_channel ? vldrwq_s32(q->mult_q31 + c) : vdupq_n_s32(q->mult_q31[0]);
    const int32x4_t shift = q->per_channel ? vldrbq_s32(q->shift + c) : vdupq_n_s32(q->shift[0]);
    const int32x4_t low = vdupq_n_s32(q->low), high = vdupq_n_s32(q->high);
    for (; count > 0; count--, x += step, i += out->channels) {
        const int32x4_t scaled = mct_helium_scaled(mct_helium_dot4(rows, x), mult, shift);
        const int32x4_t value = vaddq_n_s32(scaled, q->zero_point);
        const int32x4_t clamped = vminq_s32(vmaxq_s32(value, low), high);
        vstrbq_s32(out->y + i, clamped);
        const uint32_t passes = mct_helium_bits(vcmpeqq_s32(value, clamped));
        out->mask[i >> 3] = (uint8_t)(out->mask[i >> 3] | passes << (i & 7));
    }
}

static void mct_quad(const mct_helium_conv *job, int32_t n, const int8_t *x, int32_t step,
                     int32_t position, int32_t count) {
    const int32_t way = mct_way(job, n);
    const int32_t i = position * job->out.channels + job->o + 4 * n;
    if (way == 1) {
        mct_quad_plain(job, n, x, step, job->out.y + i, count);
    } else if (way == 2) {
        mct_quad_noted(job, n, x, step, i, count);
    } else {
        for (int32_t at = 0; at < count; at++, x += step) {
            mct_store_any(job, n, mct_helium_dot4(&job->quads[n], x), position + at);
        }
    }
}

static inline int32_t mct_quads(const mct_helium_conv *job) {
    return (job->outs + 3) / 4;
}

/* A block of channels at all positions, as many columns at a time as fit. */
static void mct_block(mct_helium_conv *job, int32_t positions) {
    const int32_t width = job->y->w, most = MCT_HELIUM_COLUMN_BYTES / job->depth;
    const mct_window *win = job->columns.window;
    int32_t row = 0, column = 0;
    for (int32_t position = 0; position < positions; position += most) {
        const int32_t count = mct_min(positions - position, most);
        for (int32_t n = 0; n < count; n++) {
            mct_helium_column(&job->columns, row * win->stride_h - win->pad_top,
                              column * win->stride_w - win->pad_left, job->column + n * job->depth);
            column++;
            if (column == width) {
                column = 0;
                row++;
            }
        }
        for (int32_t quad = 0; quad < mct_quads(job); quad++) {
            mct_quad(job, quad, job->column, job->depth, position, count);
        }
    }
}

/* A block at a position whose column is too long for that: the sums wait for its next part. */
static void mct_deep(mct_helium_conv *job, int32_t position) {
    const mct_window *win = job->columns.window;
    const int32_t iy = position / job->y->w * win->stride_h - win->pad_top;
    const int32_t ix = position % job->y->w * win->stride_w - win->pad_left;
    mct_helium_rows waiting[MCT_HELIUM_OUTS / 4];
    memcpy(waiting, job->quads, sizeof waiting);
    for (int32_t k = 0; k < job->depth; k += MCT_HELIUM_COLUMN_BYTES) {
        const int32_t depth = mct_min(job->depth - k, MCT_HELIUM_COLUMN_BYTES);
        mct_helium_column_part(&job->columns, iy, ix, k, depth, job->column);
        for (int32_t quad = 0; quad < mct_quads(job); quad++) {
            mct_helium_rows *rows = &waiting[quad];
            int32_t sums[4];
            rows->depth = depth;
            vstrwq_s32(sums, mct_helium_dot4(rows, job->column));
            *rows = (mct_helium_rows){
                .w0 = rows->w0 + depth,
                .sum0 = sums[0],
                .w1 = rows->w1 + depth,
                .sum1 = sums[1],
                .sum2 = sums[2],
                .w2 = rows->w2 + depth,
                .sum3 = sums[3],
                .w3 = rows->w3 + depth,
            };
        }
    }
    for (int32_t quad = 0; quad < mct_quads(job); quad++) {
        const mct_helium_rows *rows = &waiting[quad];
        const int32_t sums[4] = {rows->sum0, rows->sum1, rows->sum2, rows->sum3};
        mct_store_any(job, quad, vldrwq_s32(sums), position);
    }
}

void mct_helium_conv_run(mct_helium_conv *job, int32_t begin, int32_t end) {
    const int32_t positions = job->y->h * job->y->w;
    for (int32_t o = begin; o < end; o += job->most_outs) {
        mct_begin_block(job, o, end);
        if (job->point) {
            for (int32_t quad = 0; quad < mct_quads(job); quad++) {
                mct_quad(job, quad, job->columns.from, job->columns.x->c, 0, positions);
            }
        } else if (job->depth <= MCT_HELIUM_COLUMN_BYTES) {
            mct_block(job, positions);
        } else {
            for (int32_t position = 0; position < positions; position++) {
                mct_deep(job, position);
            }
        }
    }
}
