/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise.h"
#include "mct_dsp_requantize.h"

/* Of which the sums lie on the stack. */
#define MCT_SUMS_COLUMNS 16

typedef struct {
    mct_dsp_output out;
    mct_dsp_channel channels[4];
} mct_filtered;

static void mct_begin_filtered(void *result, const mct_depthwise_block *b) {
    mct_filtered *to = result;
    mct_dsp_channels_of(to->out.q, to->out.b, b->c, b->channels, b->d.kernel_h * b->d.kernel_w,
                        to->channels);
}

/* The element of channel c + l at the strip's row and column. */
static int32_t mct_element(const mct_filtered *to, const mct_depthwise_block *b, int32_t l,
                           int32_t row, int32_t column) {
    const int32_t at_row = b->row + row, at_column = b->column + column;
    const int32_t position =
        b->d.turned ? at_column * b->d.rows + at_row : at_row * b->d.columns + at_column;
    return position * to->out.stride + b->c + l;
}

/* How far the element of the next column is, and of the next row. */
static int32_t mct_next_column(const mct_filtered *to, const mct_depthwise_block *b) {
    return b->d.turned ? b->d.rows * to->out.stride : to->out.stride;
}
static int32_t mct_next_row(const mct_filtered *to, const mct_depthwise_block *b) {
    return b->d.turned ? to->out.stride : b->d.columns * to->out.stride;
}

/* Channel c + l in the general way. */
static __attribute__((noinline)) void mct_take_sums(const mct_filtered *to, mct_depthwise_block *b,
                                                    int32_t l) {
    const mct_dsp_channel *channel = &to->channels[l];
    mct_dsp_output out = to->out;
    out.stride = mct_next_column(to, b);
    for (int32_t column = 0; column < b->columns; column += MCT_SUMS_COLUMNS) {
        const int32_t count = mct_min(b->columns - column, MCT_SUMS_COLUMNS);
        for (int32_t row = 0; row < b->rows; row++) {
            int32_t sums[MCT_SUMS_COLUMNS];
            mct_depthwise_sums(b, l, channel, row, column, (count + 3) / 4, sums);
            mct_dsp_store(&out, channel, b->c + l, sums, mct_element(to, b, l, row, column), count);
        }
    }
}

/* The last one to three columns of channel c + l: a group of four aside, from where the columns that there
 * are go to y. */
static __attribute__((noinline)) void mct_take_rest(const mct_filtered *to, mct_depthwise_block *b,
                                                    int32_t l) {
    const int32_t column = b->columns / 4 * 4, stride = mct_next_column(to, b);
    int8_t bytes[4 * MCT_STRIP_ROWS];
    b->tile.groups = 1;
    b->tile.stride = 1;
    b->tile.to_next = 0;
    b->tile.result = bytes;
    mct_depthwise_run_tile(b, l, 1, column);
    int8_t *y = to->out.y + mct_element(to, b, l, 0, column);
    for (int32_t row = 0; row < b->rows; row++, y += mct_next_row(to, b)) {
        for (int32_t i = 0; column + i < b->columns; i++) {
            y[i * stride] = bytes[4 * row + i];
        }
    }
}

/* The channels c + l … c + l + count - 1 by the tile. notes: a word for each group of four columns, of which
 * each channel fills its byte; or NULL. */
static void mct_take_bytes(const mct_filtered *to, mct_depthwise_block *b, int32_t l, int32_t count,
                           uint32_t *notes) {
    const int32_t groups = b->columns / 4, stride = mct_next_column(to, b);
    mct_tile_plane *tile = &b->tile;
    tile->row = b->table;
    tile->end = b->table + 3 * b->rows;
    tile->store = notes == NULL ? MCT_PLANE_BYTES : MCT_PLANE_NOTED;
    tile->channel = &to->channels[l];
    tile->notes = notes == NULL ? NULL : (uint8_t *)notes + l;
    if (groups > 0) {
        tile->stride = stride;
        tile->groups = groups;
        tile->to_next = mct_next_row(to, b) - 4 * groups * stride;
        tile->to_channel = 1;
        tile->result = to->out.y + mct_element(to, b, l, 0, 0);
        mct_depthwise_run_tile(b, l, count, 0);
    }
    for (; b->columns % 4 != 0 && count > 0; count--, l++) {
        tile->channel = &to->channels[l];
        tile->notes = notes == NULL ? NULL : (uint8_t *)(notes + groups * b->rows) + l;
        mct_take_rest(to, b, l);
    }
}

/* Four channels' bits of a group's columns into the mask, of whose bytes they are a half each. */
static inline void mct_mark(uint8_t *mask, int32_t i, int32_t stride, int32_t columns,
                            uint32_t notes) {
    for (; columns > 0; columns--, notes >>= 1, i += stride) {
        const uint32_t bits = (notes & 0x01010101u) * 0x01020408u >> 24;
        mask[i >> 3] = (uint8_t)(mask[i >> 3] | bits << (i & 4));
    }
}

static __attribute__((noinline)) void
mct_mark_strip(const mct_filtered *to, const mct_depthwise_block *b, const uint32_t *notes) {
    const int32_t whole = b->columns / 4 * 4, rest = b->columns - whole;
    const int32_t stride = mct_next_column(to, b);
    uint8_t *mask = to->out.mask;
    for (int32_t row = 0; row < b->rows; row++) {
        for (int32_t column = 0; column < whole; column += 4) {
            mct_mark(mask, mct_element(to, b, 0, row, column), stride, 4, *notes++);
        }
    }
    for (int32_t row = 0; rest > 0 && row < b->rows; row++) {
        mct_mark(mask, mct_element(to, b, 0, row, whole), stride, rest, *notes++);
    }
}

static void mct_take_filtered(void *result, mct_depthwise_block *b) {
    const mct_filtered *to = result;
    const int plain =
        to->out.full && b->cut.kind >= 0 && (to->out.mask == NULL || to->out.stride % 4 == 0);
    const int32_t words = (b->columns + 3) / 4 * b->rows;
    uint32_t *notes = to->out.mask == NULL ? NULL : b->pool[3] + MCT_POOL_WORDS - words;
    for (int32_t i = 0; notes != NULL && i < words; i++) {
        notes[i] = 0;
        mct_keep_loop();
    }
    for (int32_t l = 0; l < b->channels;) {
        int32_t count = 0;
        while (plain && l + count < b->channels && to->channels[l + count].bits >= 0) {
            count++;
        }
        if (count > 0) {
            mct_take_bytes(to, b, l, count, notes);
        } else {
            mct_take_sums(to, b, l);
        }
        l += mct_max(count, 1);
    }
    if (plain && notes != NULL) {
        mct_mark_strip(to, b, notes);
    }
}

static __attribute__((noinline)) void mct_filter_any(const mct_depthwise_conv_2d_s8_params *p,
                                                     const int8_t *x, const int8_t *w,
                                                     const int32_t *b, int8_t *y, uint8_t *mask,
                                                     int8_t *scratch) {
    mct_depthwise_any(p, x, w, b, y, mask, scratch);
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    const mct_window *win = &p->window;
    mct_depthwise_block block;
    block.d = (mct_depthwise){
        .from = p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .kernel_h = win->kernel_h,
        .kernel_w = win->kernel_w,
        .stride_h = win->stride_h,
        .stride_w = win->stride_w,
        .pad_top = win->pad_top,
        .pad_left = win->pad_left,
        .w_row = win->kernel_w * p->y.c,
        .w_column = p->y.c,
        .factor = 2,
        .zero_point = p->x_zero_point,
        .tail = mask != NULL, /* a byte of notes for four positions of each channel */
        .element_bytes = 1,
        .load = mct_depthwise_load_s8,
        .x = x,
        .w = w,
        .aside = x == y ? scratch : NULL,
    };
    if (p->x.c != p->y.c || win->dilation_h != 1 || win->dilation_w != 1 ||
        !mct_depthwise_choose(&block.d)) {
        mct_filter_any(p, x, w, b, y, mask, scratch);
        return;
    }
    mct_filtered result;
    result.out = mct_dsp_output_of(&p->requantize, b, p->y.h * p->y.w, p->y.c, y, mask);
    mct_depthwise_run(&block, mct_begin_filtered, mct_take_filtered, &result);
}
