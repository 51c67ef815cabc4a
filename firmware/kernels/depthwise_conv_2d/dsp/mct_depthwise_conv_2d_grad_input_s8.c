#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise_phase.h"
#include "mct_dsp_gradient.h"
#include "mct_grad_s8.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

typedef struct {
    mct_dsp_writer writer;
    const mct_shape *dx;
    int32_t row, column;           /* the first of dx that a phase writes */
    int32_t row_step, column_step; /* from a row and a column of a phase to the next, in dx */
    mct_factor factors[4];
} mct_gathered;

static void mct_begin_gathered(void *result, const mct_depthwise_block *b) {
    mct_gathered *to = result;
    mct_factors_of(to->writer.writer, b->c, b->channels, to->factors);
}

static void mct_take_gathered(void *result, mct_depthwise_block *b) {
    mct_gathered *to = result;
    const int32_t channels = to->dx->c, columns = b->columns;
    const int whole = to->row_step == 1 && to->column_step == 1 && columns == to->dx->w;
    const int32_t count = whole ? b->rows * columns : columns;
    const int32_t *found = mct_depthwise_block_sums(b);
    for (int32_t row = 0; row < (whole ? 1 : b->rows); row++) {
        const mct_dsp_sums sums = {found + row * columns, MCT_POOL_WORDS, 1};
        const int32_t at_row = to->row + (b->row + row) * to->row_step;
        const int32_t at_column = to->column + b->column * to->column_step;
        mct_dsp_write_sums(&to->writer, to->factors, sums, b->c, b->channels,
                           (at_row * to->dx->w + at_column) * channels + b->c,
                           to->column_step * channels, count);
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
    mct_gathered result = {.writer = mct_dsp_writer_of(&writer, dx), .dx = &p->dx};
    mct_depthwise_block block;
    block.d = (mct_depthwise){
        .from = &p->dy,
        .factor = 1,
        .tail = 4, /* a sum for each position */
        .element_bytes = 1,
        .load = mct_depthwise_load_s8,
        .x = dy,
        .aside = dy == dx ? (int8_t *)scratch : NULL,
    };
    if (mct_depthwise_has_phases(&p->dx, &p->window, w, &block.d)) {
        for (int32_t phase = 0; phase < p->window.stride_h * p->window.stride_w; phase++) {
            result.row_step = p->window.stride_h;
            result.column_step = p->window.stride_w;
            result.row = phase / p->window.stride_w;
            result.column = phase % p->window.stride_w;
            if (mct_depthwise_phase(&p->dx, &p->window, w, result.row, result.column, &block.d)) {
                mct_depthwise_run(&block, mct_begin_gathered, mct_take_gathered, &result);
            }
        }
    } else if (dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, &p->window, w, dx, (int8_t *)scratch, &writer);
    } else {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_position_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s8(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_dsp_writer_end(&result.writer, 7);
}
