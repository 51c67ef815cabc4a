/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a convolution, four output channels at a time, for all of them or those of a group. */
#ifndef MCT_HELIUM_CONV_H
#define MCT_HELIUM_CONV_H

#include "mct_helium_columns.h"
#include "mct_helium_requantize.h"

/* Output channels at a time, a multiple of 4: of a weight that is trained in part their rows are put
 * together. */
#define MCT_HELIUM_OUTS 24
/* Of the columns that are put together at a time. */
#define MCT_HELIUM_COLUMN_BYTES 640

typedef struct {
    mct_helium_columns columns;
    mct_helium_output out;
    const mct_shape *y;
    const mct_trained_columns *columns_trained;
    const int8_t *w, *trained;
    int8_t *scratch;
    int32_t depth, most_outs;
    int32_t point;   /* 1: position i reads the pixel i of x and nothing else */
    int32_t o, outs; /* of the block */
    mct_helium_rows quads[MCT_HELIUM_OUTS / 4]; /* its weights; a row that is missing is the last */
    int8_t column[MCT_HELIUM_COLUMN_BYTES];
} mct_helium_conv;

static inline int32_t mct_helium_is_point(const mct_shape *x, const mct_shape *y,
                                          const mct_window *window) {
    return window->kernel_h * window->kernel_w == 1 && window->stride_h == 1 &&
           window->stride_w == 1 && window->pad_top == 0 && window->pad_left == 0 && x->h == y->h &&
           x->w == y->w;
}

/* The output channels begin … end - 1 at all positions. */
void mct_helium_conv_run(mct_helium_conv *job, int32_t begin, int32_t end);

#endif
