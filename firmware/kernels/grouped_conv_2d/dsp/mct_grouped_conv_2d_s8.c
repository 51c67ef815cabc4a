/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_conv.h"
#include "mct_grouped_conv_2d.h"

/* Each group is a convolution of its own channels. */
void mct_grouped_conv_2d_s8(const mct_grouped_conv_2d_s8_params *p, const int8_t *x,
                            const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    const int32_t ins = p->x.c / p->groups, outs = p->y.c / p->groups;
    mct_conv_job job;
    job.out = mct_dsp_output_of(&p->requantize, b, p->y.h * p->y.w, p->y.c, y, mask);
    job.depth = p->window.kernel_h * p->window.kernel_w * ins;
    job.w = w;
    job.columns_trained = NULL;
    job.trained = NULL;
    job.scratch = NULL;
    job.most_outs = MCT_CONV_CHANNELS;
    for (int32_t group = 0; group < p->groups; group++) {
        job.columns =
            mct_columns_of(&p->x, &p->y, &p->window, p->x_zero_point, x + group * ins, ins);
        mct_conv_run(&job, group * outs, (group + 1) * outs);
    }
}
