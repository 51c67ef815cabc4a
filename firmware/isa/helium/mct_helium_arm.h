/* Helium itself; only mct_helium.h includes this. */
#ifndef MCT_HELIUM_ARM_H
#define MCT_HELIUM_ARM_H

#include <arm_mve.h>

/* sum + sum over k < depth of x[k] * w[k], for each of four rows. depth: at least 1.
 *
 * Compilers use no loop whose tail is predicated by itself, hence the assembly. */
static inline int32x4_t mct_helium_dot4(const mct_helium_rows *rows, const int8_t *x,
                                        int32_t depth) {
    int32x4_t sums;
    __asm__ volatile("ldm %[rows], {r3, r4, r5, r6, r8, r9, r10, r11}\n\t"
                     "dlstp.8 lr, %[depth]\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[x]], #16\n\t"
                     "vldrb.8 q1, [r3], #16\n\t"
                     "vmladava.s8 r4, q0, q1\n\t"
                     "vldrb.8 q2, [r5], #16\n\t"
                     "vmladava.s8 r6, q0, q2\n\t"
                     "vldrb.8 q1, [r9], #16\n\t"
                     "vmladava.s8 r8, q0, q1\n\t"
                     "vldrb.8 q2, [r11], #16\n\t"
                     "vmladava.s8 r10, q0, q2\n\t"
                     "letp lr, 1b\n\t"
                     "vmov %q[sums][2], %q[sums][0], r4, r8\n\t"
                     "vmov %q[sums][3], %q[sums][1], r6, r10"
                     : [sums] "=w"(sums), [x] "+r"(x)
                     : [rows] "r"(rows), [depth] "r"(depth)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "q2",
                       "cc", "memory");
    return sums;
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

/* Bytes from from[at[i]] to to[put[i]], eight at a time, the next eight at the steps behind. count: of
 * all of them, 0 or more. */
static inline void mct_helium_strew(int8_t *to, uint16x8_t put, int32_t to_step, const int8_t *from,
                                    uint16x8_t at, int32_t from_step, int32_t count) {
    __asm__ volatile("wlstp.16 lr, %[count], 2f\n"
                     "1:\n\t"
                     "vldrb.s16 q0, [%[from], %q[at]]\n\t"
                     "add %[from], %[from], %[from_step]\n\t"
                     "vstrb.16 q0, [%[to], %q[put]]\n\t"
                     "add %[to], %[to], %[to_step]\n\t"
                     "letp lr, 1b\n"
                     "2:"
                     : [to] "+r"(to), [from] "+r"(from)
                     : [put] "w"(put), [at] "w"(at), [to_step] "r"(to_step),
                       [from_step] "r"(from_step), [count] "r"(count)
                     : "lr", "q0", "cc", "memory");
}

#endif
