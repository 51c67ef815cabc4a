/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 by the dot products of four that Armv8.2 has (sdot), where the processor has them:
 * a Cortex-A76 has, a Cortex-A53 or A72 has not, and one program runs on all.
 *
 * The zero points are left in the factors, and what they make of the sums is subtracted. All is
 * modulo 2^32, so a sum that fits int32 is exact, whatever was on the way. */
#ifndef MCT_DOT_H
#define MCT_DOT_H

#include <stdint.h>

/* clang 15 and older compile them only for a whole program. */
#if defined(__clang__) && __clang_major__ < 16
#define MCT_MAY_HAVE_DOT 0
#elif defined(__aarch64__) && defined(__linux__) && !defined(__AARCH64EB__)
#define MCT_MAY_HAVE_DOT 1
#else
#define MCT_MAY_HAVE_DOT 0
#endif

#if MCT_MAY_HAVE_DOT

#define MCT_DOT_TILE 8 /* rows whose sums stay in registers */
#define MCT_DOT_COLUMNS 8
#define MCT_DOT_DEPTH 16 /* of which the depth is a multiple */

/* Factors of a block, b[d / 4][c][d % 4]. a: rows that lie `row` apart, and their quads `quad`: one of
 * them is 4. */
typedef struct {
    const int8_t *a, *b;
    int32_t row, quad;
    int32_t depth;
    const int32_t *of_rows, *of_columns; /* are subtracted from the sums */
} mct_dot;

/* Whether this processor has the instructions. */
int mct_has_dot(void);

/* Sums of numbers along the depth, of MCT_DOT_TILE rows, and of MCT_DOT_COLUMNS columns. */
void mct_dot_sum_rows(const mct_dot *dot, int32_t row, int32_t *sums);
void mct_dot_sum_columns(const mct_dot *dot, int32_t *sums);

/* sums (+)= a . b; rows of sums are `step` apart, and there is room for a multiple of MCT_DOT_TILE of
 * them. */
void mct_dot_multiply(const mct_dot *dot, int32_t rows, int add, int32_t *sums, int32_t step);

#endif

#endif
