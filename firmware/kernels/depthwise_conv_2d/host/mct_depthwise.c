#include "mct_depthwise.h"

#include "mct_fixedpoint.h"
#include "mct_simd.h"
#include "mct_threads.h"

/* A line is a row of `from` as vectors of int16 pairs: an element and the one to its right, a
 * dilation away, so that one dot product does two taps. Lines are kept while rows use them. */
#define MCT_LINE_VECTORS 2048
#define MCT_WEIGHT_VECTORS 256
#define MCT_LINES 64
#define MCT_COLUMNS 64
#define MCT_COLUMNS_AT_ONCE 4

/* A block of channels and columns. */
typedef struct {
    int32_t c, lanes;
    int32_t column, columns;
    int32_t length;          /* of a line */
    int32_t held[MCT_LINES]; /* the row that each line is of */
    mct_v32 lines[MCT_LINE_VECTORS];
    mct_v32 w[MCT_WEIGHT_VECTORS];
    int32_t sums[MCT_COLUMNS * MCT_LANES];
} mct_lines;

static int32_t mct_pairs(const mct_depthwise *d) {
    return (d->window.kernel_w + 1) / 2;
}

static int32_t mct_line_length(const mct_depthwise *d, int32_t columns) {
    const int32_t groups = (columns + MCT_COLUMNS_AT_ONCE - 1) / MCT_COLUMNS_AT_ONCE;
    return (groups * MCT_COLUMNS_AT_ONCE - 1) * d->window.stride_w +
           (2 * mct_pairs(d) - 1) * d->window.dilation_w + 1;
}

int mct_depthwise_fits(const mct_depthwise *d) {
    return d->window.kernel_h <= MCT_LINES &&
           d->window.kernel_h * mct_pairs(d) <= MCT_WEIGHT_VECTORS &&
           mct_line_length(d, MCT_COLUMNS_AT_ONCE) <= MCT_LINE_VECTORS / d->window.kernel_h;
}

static mct_v32 mct_load_tap(const mct_depthwise *d, const mct_lines *l, int32_t ky, int32_t kx) {
    const mct_window *win = &d->window;
    if (kx >= win->kernel_w) {
        return (mct_v32){0};
    }
    const int32_t tap = ky * win->kernel_w + kx;
    const int32_t at = d->flipped ? win->kernel_h * win->kernel_w - 1 - tap : tap;
    return mct_v_load_s8(d->w + at * d->from.c + l->c, l->lanes);
}

static void mct_load_weights(const mct_depthwise *d, mct_lines *l) {
    const int32_t pairs = mct_pairs(d);
    for (int32_t ky = 0; ky < d->window.kernel_h; ky++) {
        for (int32_t pair = 0; pair < pairs; pair++) {
            l->w[ky * pairs + pair] =
                mct_v_pair(mct_load_tap(d, l, ky, 2 * pair), mct_load_tap(d, l, ky, 2 * pair + 1));
        }
    }
}

static mct_v32 mct_load_element(const mct_depthwise *d, const mct_lines *l, const int8_t *row,
                                int32_t x) {
    return mct_v_load_s8(row + x * d->from.c, l->lanes) - d->zero_point;
}

/* A line whose element x is to be number x * upsample_w - left. */
static void mct_load_apart(const mct_depthwise *d, const mct_lines *l, const int8_t *row,
                           int32_t left, mct_v32 *line) {
    const int32_t apart = d->window.dilation_w;
    for (int32_t x = 0; x < d->from.w; x++) {
        const int32_t i = x * d->upsample_w - left;
        if (i >= 0 && i < l->length) {
            const mct_v32 element = mct_load_element(d, l, row, x);
            line[i] |= element & 0xFFFF;
            if (i >= apart) {
                line[i - apart] |= (mct_v32)((mct_vu32)element << 16);
            }
        }
    }
}

/* The same where pairs are of neighbours: no dilation, nothing between elements. */
static void mct_load_neighbours(const mct_depthwise *d, const mct_lines *l, const int8_t *row,
                                int32_t left, mct_v32 *line) {
    const int32_t end = mct_min(left + l->length, d->from.w);
    mct_v32 before = {0};
    for (int32_t x = mct_max(left, 0); x < end; x++) {
        const mct_v32 element = mct_load_element(d, l, row, x);
        if (x > left) {
            line[x - left - 1] = mct_v_pair(before, element);
        }
        before = element;
    }
    if (end > left) {
        line[end - left - 1] = before & 0xFFFF;
    }
}

static void mct_load_line(const mct_depthwise *d, const mct_lines *l, int32_t y, mct_v32 *line) {
    const int8_t *row = d->x + y / d->upsample_h * d->from.w * d->from.c + l->c;
    const int32_t left = l->column * d->window.stride_w - d->window.pad_left;
    memset(line, 0, (size_t)l->length * sizeof *line);
    if (d->window.dilation_w == 1 && d->upsample_w == 1) {
        mct_load_neighbours(d, l, row, left, line);
    } else {
        mct_load_apart(d, l, row, left, line);
    }
}

/* The line of row y, loaded unless it is held; NULL where a row is all 0. */
static const mct_v32 *mct_line(const mct_depthwise *d, mct_lines *l, int32_t y, int32_t ky) {
    if (y < 0 || y >= d->from.h * d->upsample_h || y % d->upsample_h != 0) {
        return NULL;
    }
    const int32_t slot = d->window.dilation_h == 1 ? y % d->window.kernel_h : ky;
    mct_v32 *line = l->lines + slot * l->length;
    if (l->held[slot] != y) {
        mct_load_line(d, l, y, line);
        l->held[slot] = y;
    }
    return line;
}

static void mct_row_sums(const mct_depthwise *d, mct_lines *l, int32_t row) {
    const mct_window *win = &d->window;
    const int32_t pairs = mct_pairs(d);
    const mct_v32 *lines[MCT_LINES];
    const mct_v32 *ws[MCT_LINES];
    int32_t used = 0;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        const int32_t y = row * win->stride_h + ky * win->dilation_h - win->pad_top;
        lines[used] = mct_line(d, l, y, ky);
        ws[used] = l->w + ky * pairs;
        used += lines[used] != NULL;
    }
    const int32_t stride = win->stride_w;
    for (int32_t s = 0; s < l->columns; s += MCT_COLUMNS_AT_ONCE) {
        mct_v32 acc[MCT_COLUMNS_AT_ONCE] = {{0}, {0}, {0}, {0}};
        for (int32_t k = 0; k < used; k++) {
            const mct_v32 *from = lines[k] + s * stride;
            for (int32_t pair = 0; pair < pairs; pair++) {
                for (int32_t i = 0; i < MCT_COLUMNS_AT_ONCE; i++) {
                    acc[i] = mct_v_dot(acc[i], from[i * stride], ws[k][pair]);
                }
                from += 2 * win->dilation_w;
            }
        }
        for (int32_t i = 0; i < MCT_COLUMNS_AT_ONCE; i++) {
            mct_v_store(l->sums + (s + i) * MCT_LANES, acc[i]);
        }
    }
}

static int32_t mct_columns(const mct_depthwise *d) {
    int32_t most = mct_min(d->columns, MCT_COLUMNS);
    while (mct_line_length(d, most) > MCT_LINE_VECTORS / d->window.kernel_h) {
        most -= MCT_COLUMNS_AT_ONCE;
    }
    return most;
}

int mct_depthwise_is_whole(const mct_depthwise *d) {
    return d->window.dilation_h == 1 && mct_columns(d) == d->columns;
}

/* The channels first … end - 1. */
static void mct_depthwise_channels(const mct_depthwise *d, int32_t first, int32_t end) {
    mct_lines l;
    const int32_t most = mct_columns(d);
    for (l.c = first; l.c < end; l.c += MCT_LANES) {
        l.lanes = mct_min(end - l.c, MCT_LANES);
        mct_load_weights(d, &l);
        for (l.column = 0; l.column < d->columns; l.column += most) {
            l.columns = mct_min(d->columns - l.column, most);
            l.length = mct_line_length(d, l.columns);
            memset(l.held, -1, sizeof l.held);
            for (int32_t row = 0; row < d->rows; row++) {
                mct_row_sums(d, &l, row);
                const mct_tile tile = {
                    row * d->columns + l.column, l.columns, l.c, l.lanes, MCT_LANES, l.sums};
                d->take(d->result, &tile);
            }
        }
    }
}

static void mct_depthwise_part(const void *depthwise, int32_t part, int32_t parts) {
    const mct_depthwise *d = depthwise;
    const int32_t unit = MCT_LANES < 8 ? 8 : MCT_LANES; /* bits of 8 channels share a byte */
    mct_depthwise_channels(d, mct_part_begin(d->from.c, part, parts, unit),
                           mct_part_begin(d->from.c, part + 1, parts, unit));
}

void mct_depthwise_run(const mct_depthwise *d) {
    const int64_t taps = d->window.kernel_h * d->window.kernel_w;
    const int64_t products = taps * d->rows * d->columns * d->from.c;
    mct_threads_run(mct_depthwise_part, d, d->from.c % 8 == 0 ? mct_threads_for(products) : 1);
}
