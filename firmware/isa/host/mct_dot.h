/* Products of int8 by the dot products of four that Armv8.2 has (sdot), where the processor has them:
 * a Cortex-A76 has, a Cortex-A53 or A72 has not, and one program runs on all.
 *
 * The factors of mct_product are numbers of int8 less a zero point. Here they are int8 again, and
 * what the zero points make of the sums is subtracted. All is modulo 2^32, so a sum that fits int32
 * is exact, whatever was on the way. */
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

#define MCT_DOT_ROWS 128 /* at most, as the others */
#define MCT_DOT_COLUMNS 8
#define MCT_DOT_DEPTH 512

/* Factors of a block: a[r * stride + d], b[d / 4][c][d % 4], and 0 from the depth to the stride, which
 * is a multiple of 16. of_rows: the sums of the first factor less its zero point; of_columns: of the
 * second as it is. */
typedef struct {
    int32_t a_zero_point, b_zero_point;
    int32_t stride;
    int8_t a[MCT_DOT_ROWS * MCT_DOT_DEPTH];
    int8_t b[MCT_DOT_DEPTH * MCT_DOT_COLUMNS];
    int32_t of_rows[MCT_DOT_ROWS];
    int32_t of_columns[MCT_DOT_COLUMNS];
} mct_dot;

/* Whether this processor has the instructions. */
int mct_has_dot(void);

/* Takes over a[r * depth + d] for r < rows; depth is even. */
void mct_dot_take_a(mct_dot *dot, const int16_t *a, int32_t rows, int32_t depth);

/* Takes over b[d / 2][c][d % 2] of MCT_DOT_COLUMNS columns. */
void mct_dot_take_b(mct_dot *dot, const int16_t *b, int32_t depth);

/* sums (+)= a . b; rows of sums are `step` apart, and there is room for a multiple of 8 of them. */
void mct_dot_multiply(const mct_dot *dot, int32_t rows, int add, int32_t *sums, int32_t step);

#endif

#endif
