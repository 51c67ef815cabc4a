/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of a row and columns of two matrices, with DSP instructions where numbers lie
 * beside each other: along the depth in both, or along the columns in the second. */
#ifndef MCT_DSP_PRODUCT_H
#define MCT_DSP_PRODUCT_H

#include "mct_dsp.h"

/* A matrix from its number (0, 0) on, and how far the next column and the next number along the
 * depth are. zero_point: what to subtract from each number. */
typedef struct {
    const int8_t *at;
    int32_t column, depth;
    int32_t zero_point;
} mct_factor;

static inline int32_t mct_product(const mct_factor *row, const mct_factor *columns, int32_t depth) {
    int32_t sum = 0;
    for (int32_t k = 0; k < depth; k++) {
        sum += (row->at[k * row->depth] - row->zero_point) *
               (columns->at[k * columns->depth] - columns->zero_point);
    }
    return sum;
}

static inline uint32_t mct_negative_pair(int32_t zero_point) {
    return mct_pair(-zero_point, -zero_point);
}

/* Four columns beside each other, two numbers of the depth at a time. */
static mct_sums4 mct_products_across(const mct_factor *row, const mct_factor *columns,
                                     int32_t depth) {
    const uint32_t zero = mct_negative_pair(columns->zero_point);
    const int8_t *a = row->at, *b = columns->at;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (; depth > 0; depth -= 2) {
        const uint32_t first = mct_load32(b);
        const uint32_t even = mct_add_even_bytes(zero, first);
        const uint32_t odd = mct_add_odd_bytes(zero, first);
        uint32_t next_even = 0, next_odd = 0, pair = (uint32_t)(a[0] - row->zero_point) & 0xFFFFu;
        if (depth > 1) {
            const uint32_t next = mct_load32(b + columns->depth);
            next_even = mct_add_even_bytes(zero, next);
            next_odd = mct_add_odd_bytes(zero, next);
            pair = mct_pair(a[0] - row->zero_point, a[row->depth] - row->zero_point);
            a += 2 * row->depth;
            b += 2 * columns->depth;
        }
        s0 = mct_dot(pair, mct_lows(even, next_even), s0);
        s1 = mct_dot(pair, mct_lows(odd, next_odd), s1);
        s2 = mct_dot(pair, mct_highs(even, next_even), s2);
        s3 = mct_dot(pair, mct_highs(odd, next_odd), s3);
    }
    return (mct_sums4){{s0, s1, s2, s3}};
}

static inline int32_t mct_dot_bytes(uint32_t even, uint32_t odd, uint32_t word, uint32_t zero,
                                    int32_t sum) {
    sum = mct_dot(even, mct_add_even_bytes(zero, word), sum);
    return mct_dot(odd, mct_add_odd_bytes(zero, word), sum);
}

/* Four columns, of which each lies beside itself along the depth, as the row does. */
static mct_sums4 mct_products_along(const mct_factor *row, const mct_factor *columns,
                                    int32_t depth) {
    const uint32_t zero_a = mct_negative_pair(row->zero_point);
    const uint32_t zero = mct_negative_pair(columns->zero_point);
    const int8_t *a = row->at, *b = columns->at;
    const int32_t step = columns->column;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (; depth > 3; depth -= 4) {
        const uint32_t word = mct_load32(a);
        const uint32_t even = mct_add_even_bytes(zero_a, word);
        const uint32_t odd = mct_add_odd_bytes(zero_a, word);
        s0 = mct_dot_bytes(even, odd, mct_load32(b), zero, s0);
        s1 = mct_dot_bytes(even, odd, mct_load32(b + step), zero, s1);
        s2 = mct_dot_bytes(even, odd, mct_load32(b + 2 * step), zero, s2);
        s3 = mct_dot_bytes(even, odd, mct_load32(b + 3 * step), zero, s3);
        a += 4;
        b += 4;
    }
    for (; depth > 0; depth--) {
        const int32_t one = *a++ - row->zero_point;
        s0 += one * (b[0] - columns->zero_point);
        s1 += one * (b[step] - columns->zero_point);
        s2 += one * (b[2 * step] - columns->zero_point);
        s3 += one * (b[3 * step] - columns->zero_point);
        b++;
    }
    return (mct_sums4){{s0, s1, s2, s3}};
}

/* sums[j] = the sum of products of the row and column j, of 1 to 4 columns. */
static inline void mct_products(const mct_factor *row, const mct_factor *columns, int32_t depth,
                                int32_t count, int32_t *sums) {
    const int is_across = columns->column == 1, is_along = row->depth == 1 && columns->depth == 1;
    if (count < 4 || !(is_across || is_along)) {
        mct_factor column = *columns;
        for (int32_t j = 0; j < count; j++) {
            sums[j] = mct_product(row, &column, depth);
            column.at += columns->column;
        }
        return;
    }
    const mct_sums4 found = is_along ? mct_products_along(row, columns, depth)
                                     : mct_products_across(row, columns, depth);
    for (int32_t j = 0; j < 4; j++) {
        sums[j] = found.lane[j];
    }
}

#endif
