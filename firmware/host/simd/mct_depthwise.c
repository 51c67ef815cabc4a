#include "mct_depthwise.h"

#include "mct_fixedpoint.h"

/* Lines of x are kept as vectors of int16 pairs: a pixel and its neighbour to the right, one
 * dilation away, so that one dot product does two taps. */
#define MCT_LINE_VECTORS 2048
#define MCT_WEIGHT_VECTORS 256
#define MCT_LINES 64
#define MCT_COLUMNS 64
#define MCT_COLUMNS_AT_ONCE 4

/* The lines of a block of channels and columns. */
typedef struct {
    int32_t c, lanes;
    int32_t column, columns;
    int32_t length;          /* of a line, in vectors */
    int32_t held[MCT_LINES]; /* the row that each line is of */
    mct_v32 lines[MCT_LINE_VECTORS];
    mct_v32 w[MCT_WEIGHT_VECTORS];
} mct_lines;

static int32_t mct_pairs(const mct_depthwise *d) {
    return (d->window.kernel_w + 1) / 2;
}

static int32_t mct_line_length(const mct_depthwise *d, int32_t columns) {
    const int32_t padded =
        (columns + MCT_COLUMNS_AT_ONCE - 1) / MCT_COLUMNS_AT_ONCE * MCT_COLUMNS_AT_ONCE;
    return (padded - 1) * d->window.stride_w + (2 * mct_pairs(d) - 1) * d->window.dilation_w + 1;
}

int mct_depthwise_fits(const mct_depthwise *d) {
    return d->window.kernel_h <= MCT_LINES &&
           d->window.kernel_h * mct_pairs(d) <= MCT_WEIGHT_VECTORS &&
           mct_line_length(d, MCT_COLUMNS_AT_ONCE) <= MCT_LINE_VECTORS / d->window.kernel_h;
}

static void mct_load_weights(const mct_depthwise *d, mct_lines *l) {
    const mct_window *win = &d->window;
    const int32_t taps = win->kernel_h * win->kernel_w;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        for (int32_t pair = 0; pair < mct_pairs(d); pair++) {
            mct_v32 both[2] = {{0}, {0}};
            for (int32_t i = 0; i < 2 && 2 * pair + i < win->kernel_w; i++) {
                const int32_t tap = ky * win->kernel_w + 2 * pair + i;
                const int32_t at = d->flipped ? taps - 1 - tap : tap;
                both[i] = mct_v_load_s8(d->w + at * d->from.c + l->c, l->lanes);
            }
            l->w[ky * mct_pairs(d) + pair] = mct_v_pair(both[0], both[1]);
        }
    }
}

/* Row y of the upsampled image. */
static void mct_load_line(const mct_depthwise *d, const mct_lines *l, int32_t y, mct_v32 *line) {
    const int8_t *row = d->x + y / d->upsample_h * d->from.w * d->from.c + l->c;
    const int32_t left = l->column * d->window.stride_w - d->window.pad_left;
    const int32_t width = d->from.w * d->upsample_w;
    const int32_t apart = d->window.dilation_w;
    for (int32_t i = 0; i < l->length; i++) {
        const int32_t x = left + i;
        mct_v32 pixel = {0};
        if (x >= 0 && x < width && x % d->upsample_w == 0) {
            pixel = mct_v_load_s8(row + x / d->upsample_w * d->from.c, l->lanes) - d->zero_point;
        }
        line[i] = mct_v_pair(pixel, (mct_v32){0});
        if (i >= apart) {
            line[i - apart] |= (mct_v32)((mct_vu32)pixel << 16);
        }
    }
}

/* The sums of one row of outputs. sums: [columns, rounded up][MCT_LANES] */
static void mct_row_sums(const mct_depthwise *d, mct_lines *l, int32_t row, mct_v32 *sums) {
    const mct_window *win = &d->window;
    const int32_t pairs = mct_pairs(d);
    const mct_v32 *lines[MCT_LINES];
    const mct_v32 *ws[MCT_LINES];
    int32_t used = 0;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        const int32_t y = row * win->stride_h + ky * win->dilation_h - win->pad_top;
        if (y < 0 || y >= d->from.h * d->upsample_h || y % d->upsample_h != 0) {
            continue;
        }
        const int32_t slot = win->dilation_h == 1 ? y % win->kernel_h : ky;
        mct_v32 *line = l->lines + slot * l->length;
        if (l->held[slot] != y) {
            mct_load_line(d, l, y, line);
            l->held[slot] = y;
        }
        lines[used] = line;
        ws[used++] = l->w + ky * pairs;
    }
    const int32_t stride = win->stride_w;
    for (int32_t s = 0; s < l->columns; s += MCT_COLUMNS_AT_ONCE) {
        mct_v32 a = {0};
        mct_v32 b = {0};
        mct_v32 c = {0};
        mct_v32 e = {0};
        for (int32_t k = 0; k < used; k++) {
            const mct_v32 *from = lines[k] + s * stride;
            for (int32_t pair = 0; pair < pairs; pair++) {
                const mct_v32 w = ws[k][pair];
                a = mct_v_dot(a, from[0], w);
                b = mct_v_dot(b, from[stride], w);
                c = mct_v_dot(c, from[2 * stride], w);
                e = mct_v_dot(e, from[3 * stride], w);
                from += 2 * win->dilation_w;
            }
        }
        sums[s] = a;
        sums[s + 1] = b;
        sums[s + 2] = c;
        sums[s + 3] = e;
    }
}

void mct_depthwise_run(const mct_depthwise *d) {
    mct_lines l;
    mct_v32 sums[MCT_COLUMNS];
    int32_t at_once = mct_min(d->columns, MCT_COLUMNS);
    while (mct_line_length(d, at_once) > MCT_LINE_VECTORS / d->window.kernel_h) {
        at_once -= MCT_COLUMNS_AT_ONCE;
    }
    for (l.c = 0; l.c < d->from.c; l.c += MCT_LANES) {
        l.lanes = mct_min(d->from.c - l.c, MCT_LANES);
        mct_load_weights(d, &l);
        for (l.column = 0; l.column < d->columns; l.column += at_once) {
            l.columns = mct_min(d->columns - l.column, at_once);
            l.length = mct_line_length(d, l.columns);
            memset(l.held, -1, sizeof l.held);
            for (int32_t row = 0; row < d->rows; row++) {
                mct_row_sums(d, &l, row, sums);
                d->take(d->result, row, l.column, l.columns, l.c, l.lanes, (const int32_t *)sums);
            }
        }
    }
}
