/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a class its weights from a few samples, without training: they imprint them. After Qi, Brown and
 * Lowe, "Low-Shot Learning with Imprinted Weights", CVPR 2018, in integers, around the features' centre.
 * mcutrain/quant/imprint.py is the same in numpy, bit for bit.
 *
 * q: int8 features of the classifier, z their zero point, n samples, m = centre - z, K: the classes that
 * are known already, without the one that is learnt. w, b: of the classifier, b in units of its sums.
 *
 *     d[i] = round(256 * sum of (q[i] - z) / n) - 256 * m[i]                   halves up
 *     W    = sum over k in K and i of w[k][i]^2 / |K|                          rounded down
 *     w[i] = round(d[i] * sqrt(W / sum of d^2)), within ±127                   halves up
 *     b    = round(sum over k in K of (b[k] + sum of w[k][i] * m[i]) / |K|) - sum of w[i] * m[i]
 *
 * So the class gets a row as long as theirs are in the mean, and at the centre its sum is the mean of
 * theirs. What the other classes give does not change. The square root is that of an integer, rounded
 * down: the root of R = floor(4^a * W / floor(D / 4^s)), D = sum of d^2, with the largest a for which
 * 4^a * W < 2^64 and the least s for which D / 4^s < 2^32; then sqrt(W / D) is taken as root / 2^(a + s). */
#ifndef MCT_IMPRINT_H
#define MCT_IMPRINT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_IMPRINT_MOST 65535u /* samples */

/* centre: [features], as codes of the features. residual_bits: of a weight; 0, 2, 4 or 8. */
typedef struct {
    const int8_t *centre;
    int32_t features, zero_point, residual_bits;
} mct_imprint_params;

/* sums[i] += x[i] - z
 *
 * x: int8 [features]   sums: [features]. For MCT_IMPRINT_MOST samples at most, |sums| < 2^24. */
void mct_imprint_sums(const mct_imprint_params *p, const int8_t *x, int32_t *sums);

/* sqrt(squares / distance) as root / 2^shift, shift >= 1; 0 if one of them is 0.
 *
 * squares < 2^30, distance < 2^50: squares * 4^a < 2^64, and the root of a quotient < 2^64 is below 2^32. */
uint32_t mct_imprint_root(uint64_t squares, uint64_t distance, int32_t *shift);

/* Writes the row `label` of a classifier, its residual bits, which say that the weights are exact, and
 * its bias.
 *
 * sums: of n samples, 1 <= n <= MCT_IMPRINT_MOST; afterwards d.   w: [classes][features]
 * residual: of all weights, or NULL if they have none   b: [classes], within ±MCT_BIAS_LIMIT (2^30)
 * known: the classes 0 … known - 1 are known, at least one of them is not `label`; known <= 65536.
 *
 * features <= 32896, |q - z| <= 255, |w| <= 128. |d| <= 256 * 510 < 2^17, their squares sum up to less
 * than 2^50; W < 2^30, and its dividend < 2^46; d * root < 2^17 * 2^32; b[k] + sum of w * m < 2^30 + 2^30.01,
 * over all classes < 2^48, and twice that is what is divided. All of that fits int64. */
void mct_imprint_row(const mct_imprint_params *p, int32_t *sums, uint32_t n, int32_t label,
                     int32_t known, int8_t *w, uint8_t *residual, int32_t *b);

/* Gives the row `label` what it had at first. from_w, from_residual, from_b: of all rows; NULL for zeros. */
void mct_imprint_forget(const mct_imprint_params *p, int32_t label, const int8_t *from_w,
                        const uint8_t *from_residual, const int32_t *from_b, int8_t *w,
                        uint8_t *residual, int32_t *b);

#ifdef __cplusplus
}
#endif

#endif
