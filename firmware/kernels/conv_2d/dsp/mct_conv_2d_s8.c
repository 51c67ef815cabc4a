/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_dsp_conv.h"

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    const int32_t positions = p->y.h * p->y.w;
    mct_conv_job job;
    job.columns = mct_columns_of(&p->x, &p->y, &p->window, p->x_zero_point, x, p->x.c);
    job.out = mct_dsp_output_of(&p->requantize, b, positions, p->y.c, y, mask);
    job.depth = p->window.kernel_h * p->window.kernel_w * p->x.c;
    job.w = w;
    job.columns_trained = &p->trained;
    job.trained = trained;
    job.scratch = scratch;
    job.most_outs =
        trained == NULL ? MCT_CONV_CHANNELS : mct_min(p->trained.rows, MCT_CONV_CHANNELS);
    mct_conv_run(&job, 0, p->y.c);
}
