/* SPDX-License-Identifier: Apache-2.0 */
/* Helium itself; only mct_helium.h includes this. */
#ifndef MCT_HELIUM_ARM_H
#define MCT_HELIUM_ARM_H

#include <arm_mve.h>

/* The numbers of lanes, 0 and up. By a table: gcc 12 at -O1 loses what vidupq_n leaves in the register of
 * its start, so that sums were wrong. */
static inline uint16x8_t mct_helium_numbers_u16(void) {
    static const uint16_t numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    return vldrhq_u16(numbers);
}
static inline uint32x4_t mct_helium_numbers_u32(void) {
    static const uint32_t numbers[4] = {0, 1, 2, 3};
    return vldrwq_u32(numbers);
}

/* Four sums in r4, r6, r8, r10. Compilers make no loop that predicates its own tail, hence the assembly. */
#define MCT_DOT4                                                                                   \
    "ldm %[rows], {r3, r4, r5, r6, r8, r9, r10, r11, lr}\n\t"                                      \
    "dlstp.8 lr, lr\n"                                                                             \
    "2:\n\t"                                                                                       \
    "vldrb.8 q0, [%[x]], #16\n\t"                                                                  \
    "vldrb.8 q1, [r3], #16\n\t"                                                                    \
    "vmladava.s8 r4, q0, q1\n\t"                                                                   \
    "vldrb.8 q2, [r5], #16\n\t"                                                                    \
    "vmladava.s8 r6, q0, q2\n\t"                                                                   \
    "vldrb.8 q1, [r9], #16\n\t"                                                                    \
    "vmladava.s8 r8, q0, q1\n\t"                                                                   \
    "vldrb.8 q2, [r11], #16\n\t"                                                                   \
    "vmladava.s8 r10, q0, q2\n\t"                                                                  \
    "letp lr, 2b\n\t"

/* sum + sum over k < depth of x[k] * w[k], for each of four rows. */
static inline int32x4_t mct_helium_dot4(const mct_helium_rows *rows, const int8_t *x) {
    int32x4_t sums;
    __asm__ volatile(MCT_DOT4 "vmov %q[sums][2], %q[sums][0], r4, r8\n\t"
                              "vmov %q[sums][3], %q[sums][1], r6, r10"
                     : [sums] "=w"(sums), [x] "+r"(x)
                     : [rows] "r"(rows)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "q2",
                       "cc", "memory");
    return sums;
}

/* The sums of the rows themselves, added to sum. */
static inline int32x4_t mct_helium_row_sums(const mct_helium_rows *rows) {
    int32x4_t sums;
    __asm__ volatile("ldm %[rows], {r3, r4, r5, r6, r8, r9, r10, r11, lr}\n\t"
                     "dlstp.8 lr, lr\n"
                     "1:\n\t"
                     "vldrb.8 q0, [r3], #16\n\t"
                     "vldrb.8 q1, [r5], #16\n\t"
                     "vaddva.s8 r4, q0\n\t"
                     "vldrb.8 q0, [r9], #16\n\t"
                     "vaddva.s8 r6, q1\n\t"
                     "vldrb.8 q1, [r11], #16\n\t"
                     "vaddva.s8 r8, q0\n\t"
                     "vaddva.s8 r10, q1\n\t"
                     "letp lr, 1b\n\t"
                     "vmov %q[sums][2], %q[sums][0], r4, r8\n\t"
                     "vmov %q[sums][3], %q[sums][1], r6, r10"
                     : [sums] "=w"(sums)
                     : [rows] "r"(rows)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "cc",
                       "memory");
    return sums;
}

#define MCT_POSITIONS(away)                                                                        \
    __asm__ volatile(                                                                              \
        "1:\n\t" MCT_DOT4 "vmov q0[2], q0[0], r4, r8\n\t"                                          \
        "vmov q0[3], q0[1], r6, r10\n\t"                                                           \
        "vqrdmulh.s32 q0, q0, %q[mult]\n\t"                                                        \
        "ldrd r3, r4, [%[rows], #36]\n\t" away "vrshl.s32 q0, q0, %q[shift]\n\t"                   \
        "add %[x], %[x], r3\n\t"                                                                   \
        "vadd.i32 q0, q0, %q[zero_point]\n\t"                                                      \
        "vmax.s32 q0, q0, %q[low]\n\t"                                                             \
        "vmin.s32 q0, q0, %q[high]\n\t"                                                            \
        "subs %[count], %[count], #1\n\t"                                                          \
        "vstrb.32 q0, [%[y]]\n\t"                                                                  \
        "add %[y], %[y], r4\n\t"                                                                   \
        "bne 1b"                                                                                   \
        : [x] "+r"(x), [y] "+r"(y), [count] "+r"(count)                                            \
        : [rows] "r"(&own), [mult] "w"(vldrwq_s32(own.mult_q31)),                                  \
          [shift] "w"(vldrwq_s32(own.shift)), [zero_point] "w"(vdupq_n_s32(own.zero_point)),       \
          [low] "w"(vdupq_n_s32(own.low)), [high] "w"(vdupq_n_s32(own.high))                       \
        : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "q2", "cc",          \
          "memory")

/* Four channels at `count` positions, at least 1, as int8; all shifts are negative. Where the lower limit
 * is not below the zero point, it is what every negative value becomes, however a half is rounded. */
static inline void mct_helium_positions(const mct_helium_quad *quad, const int8_t *x, int8_t *y,
                                        int32_t count) {
    mct_helium_quad own = *quad;
    own.x_step -= (own.rows.depth + 15) & ~15; /* which the loop has passed */
    if (own.low >= own.zero_point) {
        MCT_POSITIONS("");
    } else {
        MCT_POSITIONS("vshr.s32 q1, q0, #31\n\t"
                      "vadd.i32 q0, q0, q1\n\t");
    }
}

/* count: 0 or more. What is copied may overlap if it moves down. */
static inline void mct_helium_copy(int8_t *to, const int8_t *from, int32_t count) {
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[from]], #16\n\t"
                     "vstrb.8 q0, [%[to]], #16\n\t"
                     "letp lr, 1b\n"
                     "2:"
                     : [to] "+r"(to), [from] "+r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "cc", "memory");
}
static inline void mct_helium_fill(int8_t *to, int8_t value, int32_t count) {
    __asm__ volatile("vdup.8 q0, %[value]\n\t"
                     "wlstp.8 lr, %[count], 2f\n"
                     "1:\n\t"
                     "vstrb.8 q0, [%[to]], #16\n\t"
                     "letp lr, 1b\n"
                     "2:"
                     : [to] "+r"(to)
                     : [value] "r"((int32_t)value), [count] "r"(count)
                     : "lr", "q0", "cc", "memory");
}

/* count: at least 1. */
static inline int32_t mct_helium_sum(const int8_t *from, int32_t count) {
    register int32_t sum __asm__("r4") = 0;
    __asm__ volatile("dlstp.8 lr, %[count]\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[from]], #16\n\t"
                     "vaddva.s8 %[sum], q0\n\t"
                     "letp lr, 1b"
                     : [sum] "+r"(sum), [from] "+r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "cc", "memory");
    return sum;
}

/* Copies a rectangle, eight columns at a time. */
static inline void mct_helium_strew(const mct_helium_block *b) {
    const uint16x8_t lanes = mct_helium_numbers_u16();
    const uint16x8_t at = vmulq_n_u16(lanes, (uint16_t)b->from_column);
    const uint16x8_t put = vmulq_n_u16(lanes, (uint16_t)b->to_column);
    const int32_t eights = (b->columns + 7) & ~7;
    int8_t *to = b->to;
    const int8_t *from = b->from;
    int32_t rows = b->rows;
    __asm__ volatile("1:\n\t"
                     "dlstp.16 lr, %[columns]\n"
                     "2:\n\t"
                     "vldrb.s16 q0, [%[from], %q[at]]\n\t"
                     "add %[from], %[from], %[from_step]\n\t"
                     "vstrb.16 q0, [%[to], %q[put]]\n\t"
                     "add %[to], %[to], %[to_step]\n\t"
                     "letp lr, 2b\n\t"
                     "add %[from], %[from], %[from_next]\n\t"
                     "add %[to], %[to], %[to_next]\n\t"
                     "subs %[rows], %[rows], #1\n\t"
                     "bne 1b"
                     : [to] "+r"(to), [from] "+r"(from), [rows] "+r"(rows)
                     : [put] "w"(put), [at] "w"(at), [to_step] "r"(8 * b->to_column),
                       [from_step] "r"(8 * b->from_column), [columns] "r"(b->columns),
                       [from_next] "r"(b->from_row - eights * b->from_column),
                       [to_next] "r"(b->to_row - eights * b->to_column)
                     : "lr", "q0", "cc", "memory");
}

/* Bytes from from[at[i]] to to[put[i]]. count: at least 1. */
static inline void mct_helium_strew_by(int8_t *to, const uint16_t *put, const int8_t *from,
                                       const uint16_t *at, int32_t count) {
    __asm__ volatile("dlstp.16 lr, %[count]\n"
                     "1:\n\t"
                     "vldrh.16 q1, [%[at]], #16\n\t"
                     "vldrh.16 q2, [%[put]], #16\n\t"
                     "vldrb.s16 q0, [%[from], q1]\n\t"
                     "vstrb.16 q0, [%[to], q2]\n\t"
                     "letp lr, 1b"
                     : [put] "+r"(put), [at] "+r"(at)
                     : [to] "r"(to), [from] "r"(from), [count] "r"(count)
                     : "lr", "q0", "q1", "q2", "cc", "memory");
}

/* A window of one vector to four, into a register; then the next one. */
#define MCT_WINDOW_1(sum)                                                                          \
    "vldrb.8 q0, [%[from]]\n\t"                                                                    \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vmladav.s8 " sum ", q0, %q[w0]\n\t"
#define MCT_WINDOW_2(sum)                                                                          \
    "vldrb.8 q0, [%[from]]\n\t"                                                                    \
    "vmladav.s8 " sum ", q0, %q[w0]\n\t"                                                           \
    "vldrb.8 q1, [%[from], #16]\n\t"                                                               \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vmladava.s8 " sum ", q1, %q[w1]\n\t"
#define MCT_WINDOW_4(sum)                                                                          \
    "vldrb.8 q0, [%[from]]\n\t"                                                                    \
    "vmladav.s8 " sum ", q0, %q[w0]\n\t"                                                           \
    "vldrb.8 q1, [%[from], #16]\n\t"                                                               \
    "vmladava.s8 " sum ", q1, %q[w1]\n\t"                                                          \
    "vldrb.8 q0, [%[from], #32]\n\t"                                                               \
    "vmladava.s8 " sum ", q0, %q[w2]\n\t"                                                          \
    "vldrb.8 q1, [%[from], #48]\n\t"                                                               \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vmladava.s8 " sum ", q1, %q[w3]\n\t"
#define MCT_WINDOWS(window)                                                                        \
    __asm__ volatile(                                                                              \
        window("r4") window("r6") window("r8") window("r10") /* as lanes */                        \
        "vmov %q[sums][2], %q[sums][0], r4, r8\n\t"                                                \
        "vmov %q[sums][3], %q[sums][1], r6, r10"                                                   \
        : [sums] "=&w"(sums), [from] "+r"(from)                                                    \
        : [step] "r"(step), [w0] "w"(w[0]), [w1] "w"(w[1]), [w2] "w"(w[2]), [w3] "w"(w[3])         \
        : "r4", "r6", "r8", "r10", "q0", "q1", "memory")

/* The sums of four windows, the first at `*at`, the next ones `step` bytes behind each other, where the
 * ones behind these are then. vectors: of a window, 1, 2 or 4. */
static inline __attribute__((always_inline)) int32x4_t mct_helium_windows(const int8_t **at,
                                                                          int32_t step,
                                                                          const int8x16_t *w,
                                                                          int32_t vectors) {
    const int8_t *from = *at;
    int32x4_t sums;
    if (vectors == 1) {
        MCT_WINDOWS(MCT_WINDOW_1);
    } else if (vectors == 2) {
        MCT_WINDOWS(MCT_WINDOW_2);
    } else {
        MCT_WINDOWS(MCT_WINDOW_4);
    }
    *at = from;
    return sums;
}

#endif
