/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_helium_conv.h"

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    mct_helium_conv job;
    job.columns = (mct_helium_columns){&p->x, &p->window, p->x_zero_point, x, p->x.c};
    job.out = mct_helium_output_of(&p->requantize, b, p->y.h * p->y.w, p->y.c, y, mask);
    job.y = &p->y;
    job.columns_trained = &p->trained;
    job.w = w;
    job.trained = trained;
    job.scratch = scratch;
    job.depth = p->window.kernel_h * p->window.kernel_w * p->x.c;
    job.most_outs = trained == NULL ? MCT_HELIUM_OUTS : mct_min(p->trained.rows, MCT_HELIUM_OUTS);
    job.point = mct_helium_is_point(&p->x, &p->y, &p->window);
    mct_helium_conv_run(&job, 0, p->y.c);
}
