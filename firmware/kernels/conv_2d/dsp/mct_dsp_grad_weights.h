/* SPDX-License-Identifier: Apache-2.0 */
/* The weights that the gradient of a convolution's input reads, four of its columns at a time. */
#ifndef MCT_DSP_GRAD_WEIGHTS_H
#define MCT_DSP_GRAD_WEIGHTS_H

#include "mct_conv_2d.h"

typedef struct {
    const int8_t *w; /* of the first column in hand, in rows of `row` */
    int32_t row;
} mct_grad_weights;

/* Takes the columns c … c + columns - 1 of the weights in hand; of one that is trained in part they are
 * put together in scratch, unless all are trained or none. */
static inline mct_grad_weights mct_grad_weights_of(const mct_conv_2d_grad_input_s8_params *p,
                                                   int32_t c, int32_t columns, const int8_t *w,
                                                   const int8_t *trained, int8_t *scratch) {
    const mct_trained_columns *t = &p->trained;
    const int32_t rows = p->dy.c * p->window.kernel_h * p->window.kernel_w;
    if (trained == NULL || (t->channels == NULL && c >= t->columns)) {
        return (mct_grad_weights){w + c, p->dx.c};
    }
    if (t->channels == NULL && c + columns <= t->columns) {
        return (mct_grad_weights){trained + c, t->columns};
    }
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < columns; i++) {
            scratch[4 * row + i] = w[row * p->dx.c + c + i];
        }
    }
    for (int32_t j = 0; j < t->columns; j++) {
        const int32_t i = (t->channels == NULL ? j : t->channels[j]) - c;
        for (int32_t row = 0; i >= 0 && i < columns && row < rows; row++) {
            scratch[4 * row + i] = trained[row * t->columns + j];
        }
    }
    return (mct_grad_weights){scratch, 4};
}

#endif
