/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_gradient.h"
#include "mct_grad_s8.h"
#include "mct_pooling.h"

#include "mct_average_pool_2d_shares_any.h"

/* The windows that read a position. */
typedef struct {
    mct_span rows, columns;
} mct_readers;

static mct_readers mct_readers_of(const mct_average_pool_2d_grad_input_s8_params *p,
                                  int32_t position) {
    const mct_window *win = &p->window;
    const int32_t iy = position / p->dx.w, ix = position % p->dx.w;
    return (mct_readers){
        mct_window_readers(iy, win->kernel_h, win->dilation_h, win->pad_top, win->stride_h,
                           p->dy.h),
        mct_window_readers(ix, win->kernel_w, win->dilation_w, win->pad_left, win->stride_w,
                           p->dy.w),
    };
}

static int mct_readers_equal(mct_readers a, mct_readers b) {
    return a.rows.begin == b.rows.begin && a.rows.end == b.rows.end &&
           a.columns.begin == b.columns.begin && a.columns.end == b.columns.end;
}

/* The first position from `position` on that gets something else; in a global pool there is none. */
static int32_t mct_end_of_equals(const mct_average_pool_2d_grad_input_s8_params *p,
                                 int32_t position, mct_readers readers) {
    const int32_t positions = p->dx.h * p->dx.w;
    const int is_dilated = p->window.dilation_h > 1 || p->window.dilation_w > 1;
    do {
        position++;
    } while (!is_dilated && position < positions &&
             mct_readers_equal(mct_readers_of(p, position), readers));
    return position;
}

void mct_average_pool_2d_grad_input_s8(const mct_average_pool_2d_grad_input_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const uint8_t *mask,
                                       mct_exponent *exponent, int8_t *dx, int32_t *scratch) {
    const int32_t positions = p->dx.h * p->dx.w, channels = p->dx.c;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_dsp_writer to = mct_dsp_writer_of(&writer, dx);
    for (int32_t position = 0; position < positions;) {
        const mct_readers readers = mct_readers_of(p, position);
        const int32_t end = mct_end_of_equals(p, position, readers);
        mct_window_shares(p, position / p->dx.w, position % p->dx.w, readers.rows, readers.columns,
                          dy, scratch);
        for (int32_t c = 0; c < channels; c += 4) {
            const int32_t count = mct_min(channels - c, 4);
            const mct_dsp_sums sums = {scratch + c, 1, 0};
            mct_factor factors[4];
            mct_factors_of(&writer, c, count, factors);
            mct_dsp_write_sums(&to, factors, sums, c, count, position * channels + c, channels,
                               end - position);
        }
        position = end;
    }
    mct_dsp_writer_end(&to, 7);
}
