/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_plane.h"

static void mct_plane_fill(uint32_t *to, int32_t words, int32_t fill) {
    const uint32_t both = (uint32_t)fill + ((uint32_t)fill << 16);
    for (const uint32_t *end = to + words; to != end;) {
        *to++ = both;
    }
}

/* Which pixels of a row lie in the windows. */
static void mct_plane_set_pixels(mct_armv6m_plane *plane) {
    const int32_t at = plane->pad_left;
    const int32_t end = at + plane->w < plane->width ? at + plane->w : plane->width;
    plane->first = at > 0 ? at : 0;
    plane->skip = plane->first - at;
    plane->pixels = end > plane->first ? end - plane->first : 0;
}

int32_t mct_armv6m_plane_fits(mct_armv6m_plane *plane) {
    const int32_t span = (plane->kernel_h - 1) * plane->dilation_h + 1;
    const int32_t pairs = (plane->kernel_w + 1) / 2;
    plane->groups = (pairs + MCT_ARMV6M_TAPS - 1) / MCT_ARMV6M_TAPS;
    plane->pairs = plane->groups > 1 ? MCT_ARMV6M_TAPS : pairs;
    plane->kept = 1;
    for (int32_t last = plane->spread_h; last < span; last += plane->spread_h) {
        plane->kept++;
    }
    /* the words beyond the last window are multiplied by 0 */
    plane->width = (plane->columns - 1) * plane->stride_w + 2 * MCT_ARMV6M_TAPS * plane->groups;
    const int32_t weights = MCT_ARMV6M_TAPS * plane->groups * plane->kernel_h;
    plane->weights = plane->panel;
    plane->row_sums = (int32_t *)(plane->weights + weights);
    plane->sums = plane->row_sums + plane->kernel_h;
    plane->rows = 1;
    while ((plane->rows + 1) * plane->columns <= MCT_ARMV6M_SUMS) {
        plane->rows++;
    }
    plane->ring = (uint32_t *)(plane->sums + plane->rows * plane->columns);
    const int32_t most = MCT_ARMV6M_WORDS - weights - plane->kernel_h;
    const int fits = plane->kernel_h * plane->groups <= MCT_ARMV6M_ROUNDS &&
                     weights <= MCT_ARMV6M_WORDS / 4 && plane->columns < most &&
                     plane->width <= most &&
                     plane->rows * plane->columns + plane->kept * plane->width <= most;
    if (fits) {
        mct_plane_fill(plane->ring, plane->kept * plane->width, plane->fill);
        mct_plane_set_pixels(plane);
    }
    return fits;
}

void mct_armv6m_plane_take(mct_armv6m_plane *plane, const int8_t *image, const int8_t *w,
                           int32_t w_step) {
    uint32_t *to = plane->weights;
    plane->image = image;
    plane->loaded = 0;
    plane->newest = plane->ring + (plane->kept - 1) * plane->width;
    plane->is_exact = 1;
    mct_armv6m_round *round = plane->rounds;
    for (int32_t ky = 0; ky < plane->kernel_h; ky++) {
        int32_t sum = 0;
        for (int32_t n = 0; n < plane->groups; n++) {
            round++->w = to + n * MCT_ARMV6M_TAPS;
        }
        uint32_t *pair = to;
        for (int32_t kx = 1; kx < plane->kernel_w; kx += 2) {
            const int32_t first = *w, second = w[w_step];
            w += 2 * w_step;
            if (first == -128 && second == -128) {
                plane->is_exact = 0;
            }
            *pair++ = (uint32_t)second + ((uint32_t)first << 16);
            sum += first + second;
        }
        if ((plane->kernel_w & 1) != 0) {
            const int32_t last = *w;
            w += w_step;
            *pair++ = (uint32_t)last << 16;
            sum += last;
        }
        to += MCT_ARMV6M_TAPS * plane->groups;
        while (plane->groups > 1 && pair != to) {
            *pair++ = 0; /* taps of a round that the window does not have */
        }
        plane->row_sums[ky] = sum * plane->fill;
    }
}

/* Words of two neighbours, an even number of them, from pixels up to `last`. before: what lies before
 * the first. Returns the last one. */
static uint32_t mct_armv6m_load_row(const int8_t *x, int32_t pixel, uint32_t *to,
                                    const int8_t *last, uint32_t before);

/* Rows that are not spread: around what their pixels write, `fill` stays from the beginning. */
static void mct_plane_load_next(const mct_armv6m_plane *plane, const int8_t *x, uint32_t *to) {
    const int32_t pixel = plane->pixel, first = plane->first;
    int32_t count = plane->pixels;
    const int8_t *last = x + (plane->skip + count) * pixel;
    uint32_t before = (uint32_t)plane->fill;
    x += plane->skip * pixel;
    if (count == 0) {
        return;
    }
    to += first - 1;
    if (first == 0) {
        before = (uint32_t)(int32_t)*x;
        x += pixel;
        count--;
        to++;
    }
    if ((count & 1) != 0) {
        const uint32_t value = (uint32_t)(int32_t)*x;
        *to++ = before + (value << 16);
        before = value;
        x += pixel;
    }
    if (count > 1) {
        before = mct_armv6m_load_row(x, pixel, to, last, before);
        to += count & ~1;
    }
    *to = before + ((uint32_t)plane->fill << 16);
}

static void mct_plane_load_spread(const mct_armv6m_plane *plane, const int8_t *x, uint32_t *to) {
    int32_t at = plane->pad_left;
    mct_plane_fill(to, plane->width, plane->fill);
    for (int32_t n = 0; n < plane->w; n++, at += plane->spread_w, x += plane->pixel) {
        const uint32_t difference = (uint32_t)(*x - plane->fill);
        if (at >= 0 && at < plane->width) {
            to[at] += difference;
        }
        if (at > 0 && at <= plane->width) {
            to[at - 1] += difference << 16;
        }
    }
}

/* Reads rows of the image down to one, which may lie below it. */
static void mct_plane_load(mct_armv6m_plane *plane, int32_t last) {
    const int32_t line = plane->w * plane->pixel;
    while (plane->loaded < plane->h && plane->loaded * plane->spread_h <= last) {
        const int8_t *x = plane->image + plane->loaded++ * line;
        plane->newest += plane->width;
        if (plane->newest == plane->ring + plane->kept * plane->width) {
            plane->newest = plane->ring;
        }
        if (plane->spread_w == 1) {
            mct_plane_load_next(plane, x, plane->newest);
        } else {
            mct_plane_load_spread(plane, x, plane->newest);
        }
    }
}

/* Where a row of the image is kept. */
static inline const uint32_t *mct_plane_kept(const mct_armv6m_plane *plane, int32_t row) {
    const uint32_t *v = plane->newest - (plane->loaded - 1 - row) * plane->width;
    return v < plane->ring ? v + plane->kept * plane->width : v;
}

/* Four taps and more in a row by the meaning of the words, where a pair of them is -128 twice. */
static void mct_plane_add_exact(const mct_armv6m_row *row) {
    int32_t at = 0;
    for (int32_t *sum = row->sums; sum != row->end; sum++, at += row->step / 4) {
        *sum = (int32_t)row->start;
        for (const mct_armv6m_round *round = row->round; round != row->rounds_end; round++) {
            for (int32_t k = 0; k < row->pairs; k++) {
                const int32_t two = mct_armv6m_exact(round->v[at + 2 * k], round->w[k]);
                *sum = (int32_t)((uint32_t)*sum + (uint32_t)two);
            }
        }
    }
}

/* The rows of the window at y that lie in an image whose rows are not spread, from the first to the last:
 * where they are kept. What they have of the zero point is added to `row`. */
static void mct_plane_rounds_next(mct_armv6m_plane *plane, int32_t y, mct_armv6m_row *row) {
    const int32_t step = plane->dilation_h, groups = plane->groups;
    const int32_t line = step * plane->width;
    const uint32_t *end = plane->ring + plane->kept * plane->width;
    mct_armv6m_round *round = plane->rounds;
    int32_t ky = 0, stop = plane->kernel_h;
    for (; ky < stop && y < 0; ky++, y += step) {
        round += groups;
    }
    while (stop > ky && y + (stop - 1 - ky) * step >= plane->h) {
        stop--;
    }
    row->round = row->rounds_end = round;
    if (ky >= stop) {
        return;
    }
    const uint32_t *v = mct_plane_kept(plane, y);
    for (; ky < stop; ky++) {
        row->start -= (uint32_t)plane->row_sums[ky];
        for (int32_t n = 0; n < groups; n++, round++) {
            round->v = v + n * (2 * MCT_ARMV6M_TAPS);
        }
        v += line;
        if (v >= end) {
            v -= plane->kept * plane->width;
        }
    }
    row->rounds_end = round;
}

/* The same if rows are spread: rounds of rows between those of the image are left out. */
static void mct_plane_rounds_spread(mct_armv6m_plane *plane, int32_t y, mct_armv6m_row *row) {
    const int32_t spread = plane->spread_h;
    const uint32_t *w = plane->weights;
    mct_armv6m_round *round = plane->rounds;
    row->round = round;
    for (int32_t ky = 0; ky < plane->kernel_h; ky++, y += plane->dilation_h) {
        const int32_t from = y < 0 ? -1 : spread == 2 ? y >> 1 : y / spread;
        if (from < 0 || from >= plane->h || from * spread != y) {
            w += MCT_ARMV6M_TAPS * plane->groups;
            continue;
        }
        const uint32_t *v = mct_plane_kept(plane, from);
        row->start -= (uint32_t)plane->row_sums[ky];
        for (int32_t n = 0; n < plane->groups; n++, v += 2 * MCT_ARMV6M_TAPS) {
            *round++ = (mct_armv6m_round){v, w};
            w += MCT_ARMV6M_TAPS;
        }
    }
    row->rounds_end = round;
}

/* to: the sums of an output row */
static void mct_plane_row(mct_armv6m_plane *plane, int32_t row, uint32_t start, int32_t *to) {
    const int32_t y = row * plane->stride_h - plane->pad_top;
    mct_armv6m_row of;
    of.sums = to;
    of.end = to + plane->columns;
    of.step = 4 * plane->stride_w;
    of.pairs = plane->pairs;
    of.start = start;
    mct_plane_load(plane, y + (plane->kernel_h - 1) * plane->dilation_h);
    if (plane->spread_h == 1) {
        mct_plane_rounds_next(plane, y, &of);
    } else {
        mct_plane_rounds_spread(plane, y, &of);
    }
    if (plane->is_exact) {
        mct_armv6m_add_row(&of);
    } else {
        mct_plane_add_exact(&of);
    }
}

int32_t mct_armv6m_plane_rows(mct_armv6m_plane *plane, int32_t row, int32_t end, uint32_t start) {
    int32_t *to = plane->sums;
    for (int32_t n = 0; n < plane->rows && row < end; n++, row++, to += plane->columns) {
        mct_plane_row(plane, row, start, to);
    }
    return (int32_t)(to - plane->sums);
}

#if MCT_ARMV6M_ASSEMBLY

__attribute__((naked, noinline)) static uint32_t
mct_armv6m_load_row(MCT_IN_REGISTER const int8_t *x, MCT_IN_REGISTER int32_t pixel,
                    MCT_IN_REGISTER uint32_t *to, MCT_IN_REGISTER const int8_t *last,
                    MCT_IN_REGISTER uint32_t before) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "ldr r4, [sp, #20]\n\t"
                     "movs r7, #0\n\t"
                     "1:\n\t"
                     "ldrsb r6, [r0, r7]\n\t"
                     "lsls r5, r6, #16\n\t"
                     "adds r5, r5, r4\n\t"
                     "ldrsb r4, [r0, r1]\n\t"
                     "adds r0, r0, r1\n\t"
                     "adds r0, r0, r1\n\t"
                     "mov r12, r4\n\t"
                     "lsls r4, r4, #16\n\t"
                     "adds r6, r6, r4\n\t"
                     "mov r4, r12\n\t"
                     "stmia r2!, {r5, r6}\n\t"
                     "cmp r0, r3\n\t"
                     "bne 1b\n\t"
                     "movs r0, r4\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t");
}

/* The sum in r2 gets the products of two taps, whose weights are in a register. */
#define MCT_PAIR(offset, weights)                                                                  \
    "ldr r3, [r0, #" offset "]\n\t"                                                                \
    "muls r3, " weights ", r3\n\t"                                                                 \
    "asrs r3, r3, #16\n\t"                                                                         \
    "adcs r2, r3\n\t"
#define MCT_PAIRS_1 MCT_PAIR("0", "r4")
#define MCT_PAIRS_2 MCT_PAIRS_1 MCT_PAIR("8", "r5")
#define MCT_PAIRS_3 MCT_PAIRS_2 MCT_PAIR("16", "r6")
#define MCT_PAIRS_4 MCT_PAIRS_3 MCT_PAIR("24", "r7")
#define MCT_SUM(pairs)                                                                             \
    "ldr r2, [r1]\n\t" pairs "stmia r1!, {r2}\n\t"                                                 \
    "add r0, r8\n\t"
/* All sums of a round: two at a time, from the second on if their number is odd. */
#define MCT_ROUND(even, odd, pairs)                                                                \
    even ":\n\t" MCT_SUM(pairs) odd ":\n\t" MCT_SUM(pairs) "cmp r1, r12\n\t"                       \
                                                           "bne " even "b\n\t"                     \
                                                           "b 9b\n\t"
#define MCT_ROUNDS                                                                                 \
    MCT_ROUND("3", "13", MCT_PAIRS_1)                                                              \
    MCT_ROUND("4", "14", MCT_PAIRS_2)                                                              \
    MCT_ROUND("5", "15", MCT_PAIRS_3)                                                              \
    MCT_ROUND("6", "16", MCT_PAIRS_4)

/* The offsets are those of mct_armv6m_row. */
__attribute__((naked, noinline)) void
mct_armv6m_add_row(MCT_IN_REGISTER const mct_armv6m_row *row) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r4, r5, r6, r7}\n\t"
                     "ldmia r0!, {r1, r2, r3, r4, r5, r6, r7}\n\t"
                     "mov r9, r1\n\t"  /* round */
                     "mov r10, r2\n\t" /* their end */
                     "mov r11, r3\n\t" /* sums */
                     "mov r12, r4\n\t" /* their end */
                     "mov r8, r5\n\t"  /* step */
                     "subs r5, r4, r3\n\t"
                     "lsrs r5, r5, #3\n\t" /* the carry says whether their number is odd */
                     "adcs r6, r6\n\t"     /* twice the pairs, and one more if so */
                     "adr r0, 8f\n\t"
                     "lsls r6, r6, #2\n\t"
                     "ldr r6, [r0, r6]\n\t"
                     "adds r0, r0, r6\n\t"
                     "mov lr, r0\n\t" /* where a round begins */
                     "1:\n\t"
                     "stmia r3!, {r7}\n\t"
                     "cmp r3, r4\n\t"
                     "bne 1b\n\t"
                     "9:\n\t"
                     "cmp r9, r10\n\t"
                     "beq 7f\n\t"
                     "mov r1, r9\n\t"
                     "ldmia r1!, {r0, r3}\n\t"
                     "mov r9, r1\n\t"
                     "ldmia r3!, {r4, r5, r6, r7}\n\t"
                     "mov r1, r11\n\t"
                     "mov pc, lr\n\t"
                     "7:\n\t"
                     "pop {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t"
                     ".p2align 2\n\t"
                     "8: .word 0, 0, 3f - 8b, 13f - 8b, 4f - 8b, 14f - 8b\n\t"
                     ".word 5f - 8b, 15f - 8b, 6f - 8b, 16f - 8b\n\t" MCT_ROUNDS);
}

#else

static uint32_t mct_armv6m_load_row(const int8_t *x, int32_t pixel, uint32_t *to,
                                    const int8_t *last, uint32_t before) {
    for (; x != last; x += pixel) {
        const uint32_t value = (uint32_t)(int32_t)*x;
        *to++ = before + (value << 16);
        before = value;
    }
    return before;
}

void mct_armv6m_add_row(const mct_armv6m_row *row) {
    for (int32_t *sum = row->sums; sum != row->end; sum++) {
        *sum = (int32_t)row->start;
    }
    for (const mct_armv6m_round *round = row->round; round != row->rounds_end; round++) {
        int32_t at = 0;
        for (int32_t *sum = row->sums; sum != row->end; sum++, at += row->step / 4) {
            for (int32_t k = 0; k < row->pairs; k++) {
                const int32_t two = mct_armv6m_two(round->v[at + 2 * k], round->w[k]);
                *sum = (int32_t)((uint32_t)*sum + (uint32_t)two);
            }
        }
    }
}

#endif
