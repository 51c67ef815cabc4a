/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_imprint.h"

#include <stddef.h>

#include "mct_fixedpoint.h"
#include "mct_residual.h"
#include "mct_update.h"

#define MCT_MEAN_BITS 8
#define MCT_IMPRINT_WEIGHT 127

/* To the nearest integer, halves up. divisor >= 1 */
static int64_t mct_rounded_quotient(int64_t dividend, int64_t divisor) {
    const int64_t doubled = 2 * divisor, number = 2 * dividend + divisor;
    const int64_t quotient = number / doubled;
    return quotient - (number % doubled < 0 ? 1 : 0);
}

/* The square root, rounded down, bit by bit. */
static uint32_t mct_root64(uint64_t x) {
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit != 0; bit >>= 2) {
        if (x >= root + bit) {
            x -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return (uint32_t)root;
}

uint32_t mct_imprint_root(uint64_t squares, uint64_t distance, int32_t *shift) {
    if (squares == 0 || distance == 0) {
        *shift = 1;
        return 0;
    }
    const int32_t left = (64 - mct_bit_length64(squares)) / 2;
    const int32_t right = mct_max(mct_bit_length64(distance) - 31, 0) / 2;
    *shift = left + right;
    return mct_root64((squares << (2 * left)) / (distance >> (2 * right)));
}

/* The sum of squares of a row's weights, and what its features at the centre add to its sum. */
static void mct_measure_row(const mct_imprint_params *p, const int8_t *w, int64_t *squares,
                            int64_t *at_centre) {
    int64_t square = 0, sum = 0;
    for (int32_t i = 0; i < p->features; i++) {
        square += w[i] * w[i];
        sum += w[i] * (p->centre[i] - p->zero_point);
    }
    *squares += square;
    *at_centre += sum;
}

void mct_imprint_sums(const mct_imprint_params *p, const int8_t *x, int32_t *sums) {
    for (int32_t i = 0; i < p->features; i++) {
        sums[i] += x[i] - p->zero_point;
    }
}

void mct_imprint_row(const mct_imprint_params *p, int32_t *sums, uint32_t n, int32_t label,
                     int32_t known, int8_t *w, uint8_t *residual, int32_t *b) {
    int64_t squares = 0, at_centre = 0, distance = 0, unused = 0, own = 0;
    for (int32_t k = 0; k < known; k++) {
        if (k != label) {
            mct_measure_row(p, w + (size_t)k * (size_t)p->features, &squares, &at_centre);
            at_centre += b[k];
        }
    }
    const int64_t others = known - (label < known ? 1 : 0);
    for (int32_t i = 0; i < p->features; i++) {
        const int64_t mean =
            mct_rounded_quotient((int64_t)sums[i] * (1 << MCT_MEAN_BITS), (int64_t)n);
        sums[i] = (int32_t)mean - (p->centre[i] - p->zero_point) * (1 << MCT_MEAN_BITS);
        distance += (int64_t)sums[i] * sums[i];
    }
    int32_t shift;
    const uint32_t root =
        mct_imprint_root((uint64_t)(squares / others), (uint64_t)distance, &shift);
    int8_t *row = w + (size_t)label * (size_t)p->features;
    const int64_t half = INT64_C(1) << (shift - 1);
    for (int32_t i = 0; i < p->features; i++) {
        const int64_t scaled = ((int64_t)sums[i] * root + half) >> shift;
        row[i] = (int8_t)mct_clamp64(scaled, -MCT_IMPRINT_WEIGHT, MCT_IMPRINT_WEIGHT);
        if (p->residual_bits > 0) {
            mct_residual_set(residual, p->residual_bits, label * p->features + i,
                             1 << (p->residual_bits - 1));
        }
    }
    mct_measure_row(p, row, &unused, &own);
    const int64_t bias = mct_rounded_quotient(at_centre, others) - own;
    b[label] = (int32_t)mct_clamp64(bias, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
}

void mct_imprint_forget(const mct_imprint_params *p, int32_t label, const int8_t *from_w,
                        const uint8_t *from_residual, const int32_t *from_b, int8_t *w,
                        uint8_t *residual, int32_t *b) {
    for (int32_t i = label * p->features; i < (label + 1) * p->features; i++) {
        w[i] = from_w != NULL ? from_w[i] : 0;
        if (p->residual_bits > 0) {
            const int32_t first =
                from_residual != NULL ? mct_residual_get(from_residual, p->residual_bits, i) : 0;
            mct_residual_set(residual, p->residual_bits, i, first);
        }
    }
    b[label] = from_b != NULL ? from_b[label] : 0;
}
