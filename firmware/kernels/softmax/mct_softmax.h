/* Softmax of each row in integers, the same bits as TFLite's reference kernel in int8.
 *
 * y = 256 * exp(d) / sum(exp(d)) - 128 with d = beta * scale * (x - max x), computed from
 * (x - max x) * 2^left_shift * mult_q31 * 2^-31 in Q5.26; below diff_min a term is 0.
 *
 * x_exponent: NULL, or scale is times 2^now; held in 0 to exponent_limit, and left_shift +
 * exponent_limit <= 30.
 * x, y: [rows][classes]; y may be x. At most 2^12 classes. */
#ifndef MCT_SOFTMAX_H
#define MCT_SOFTMAX_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, classes;
    int32_t mult_q31, left_shift;
    int32_t diff_min;
    int32_t exponent_limit;
} mct_softmax_s8_params;

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y);

#ifdef __cplusplus
}
#endif

#endif
