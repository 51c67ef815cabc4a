/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_plane.h"

/* ------------------------------------------------------------------------------------- rows */

/* The image's row that is the first at or below row y of the windows. */
static int32_t mct_plane_source(const mct_armv6m_plane *plane, int32_t y) {
    const int32_t spread = plane->spread_h;
    if (spread == 1) { /* a Cortex-M0+ does not divide */
        return y;
    }
    return y <= 0 ? y / spread : (y + spread - 1) / spread;
}

/* The first row of the image that the windows of an output row may read. */
static int32_t mct_plane_first(const mct_armv6m_plane *plane, int32_t row) {
    return mct_plane_source(plane, row * plane->stride_h - plane->pad_top);
}

/* Rows of the image that the windows of so many output rows read. */
static int32_t mct_plane_rows_of(const mct_armv6m_plane *plane, int32_t count) {
    const int32_t span = (plane->kernel_h - 1) * plane->dilation_h;
    const int32_t last = (count - 1) * plane->stride_h + span;
    return (plane->spread_h == 1 ? last : last / plane->spread_h) + 1;
}

/* Whether row ky of the window of an output row lies on a row of the image. */
static int32_t mct_plane_has(const mct_armv6m_plane *plane, int32_t row, int32_t ky) {
    const int32_t y = row * plane->stride_h - plane->pad_top + ky * plane->dilation_h;
    const int32_t from = mct_plane_source(plane, y);
    return y >= 0 && from < plane->h && from * plane->spread_h == y;
}

/* Which rows of the window belong to which of `count` output rows from `row` on. */
static void mct_plane_set_rounds(mct_armv6m_plane *plane, int32_t row, int32_t count) {
    const uint32_t *w = plane->panel;
    mct_armv6m_round *round = plane->rounds;
    plane->base = mct_plane_first(plane, row);
    plane->stop = plane->base + mct_plane_rows_of(plane, count);
    for (int32_t ky = 0; ky < plane->kernel_h; ky++) {
        int32_t begin = row, end = row + count;
        while (!plane->has_border && begin < end && !mct_plane_has(plane, begin, ky)) {
            begin++;
        }
        while (!plane->has_border && end > begin && !mct_plane_has(plane, end - 1, ky)) {
            end--;
        }
        const int32_t y = begin * plane->stride_h - plane->pad_top + ky * plane->dilation_h;
        const uint32_t *v = plane->kept + (mct_plane_source(plane, y) - plane->base) * plane->width;
        for (int32_t n = 0; n < plane->groups; n++, w += MCT_ARMV6M_TAPS) {
            if (begin < end) {
                round->v = v + n * (2 * MCT_ARMV6M_TAPS);
                round->w = w;
                round->sums = plane->sums + (begin - row) * plane->columns;
                round->end = plane->sums + (end - row) * plane->columns;
                round++;
            }
        }
    }
    plane->of.rounds_end = round;
}

/* ------------------------------------------------------------------------------------ columns */

/* Which pixels of a row lie in the windows. */
static void mct_plane_set_pixels(mct_armv6m_plane *plane) {
    const int32_t spread = plane->spread_w;
    plane->skip = 0;
    plane->at = plane->pad_left;
    for (; plane->at < 0; plane->at += spread) {
        plane->skip++;
    }
    int32_t count = plane->w - plane->skip;
    while (count > 0 && plane->at + (count - 1) * spread >= plane->width) {
        count--;
    }
    plane->load.count = count;
    plane->load.pixel = plane->pixel;
    plane->load.line = plane->w * plane->pixel;
    plane->load.width = 4 * plane->width;
    plane->load.fill = plane->fill;
}

/* What does not change from channel to channel. */
static void mct_plane_complete(mct_armv6m_plane *plane, int32_t pairs) {
    const int32_t down = plane->spread_h > 1 ? 1 : plane->stride_h;
    const uint32_t *end = plane->kept + mct_plane_rows_of(plane, plane->band) * plane->width;
    mct_armv6m_fill(plane->panel, plane->kept - 1, 0);
    mct_armv6m_fill(plane->kept - 1, end, (uint32_t)plane->fill * 0x10001u);
    plane->taps.pairs = 4 * (plane->kernel_w / 2);
    plane->taps.is_odd = plane->kernel_w & 1;
    plane->taps.row = 4 * MCT_ARMV6M_TAPS * plane->groups;
    plane->taps.to = plane->panel;
    plane->taps.end = plane->panel + MCT_ARMV6M_TAPS * plane->groups * plane->kernel_h;
    plane->of.round = plane->rounds;
    plane->of.row = 4 * plane->columns;
    plane->of.step = 4 * plane->stride_w;
    plane->of.v_gap = 4 * (down * plane->width - plane->columns * plane->stride_w);
    plane->of.gap = (plane->spread_h - 1) * plane->of.row;
    plane->of.pairs = pairs;
    plane->of.further = 4 * plane->dilation_h * plane->width;
    mct_plane_set_pixels(plane);
    mct_plane_set_rounds(plane, 0, plane->band);
}

int32_t mct_armv6m_plane_fits(mct_armv6m_plane *plane) {
    const int32_t all = (plane->kernel_w + 1) / 2;
    plane->groups = (all + MCT_ARMV6M_TAPS - 1) / MCT_ARMV6M_TAPS;
    const int32_t pairs = plane->groups > 1 ? MCT_ARMV6M_TAPS : all;
    const int32_t weights = MCT_ARMV6M_TAPS * plane->groups * plane->kernel_h;
    /* its last word is the one before the first of the next row; there is one before all rows */
    plane->width = (plane->columns - 1) * plane->stride_w + 2 * pairs * plane->groups;
    const int32_t room = MCT_ARMV6M_WORDS - weights - 1;
    if (plane->kernel_h * plane->groups > MCT_ARMV6M_ROUNDS || plane->columns > room ||
        plane->width > room) {
        return 0;
    }
    int32_t band = room / plane->columns < plane->rows ? room / plane->columns : plane->rows;
    while (band > 0 &&
           band * plane->columns + mct_plane_rows_of(plane, band) * plane->width > room) {
        band--;
    }
    plane->band = band;
    plane->is_three = plane->kernel_h == 3 && all == 2 && plane->spread_h == 1;
    plane->has_border = plane->is_three || plane->fill != 0;
    plane->sums = (int32_t *)(plane->panel + MCT_ARMV6M_WORDS) - band * plane->columns;
    plane->kept = plane->panel + weights + 1;
    if (band > 0) {
        mct_plane_complete(plane, pairs);
    }
    return band > 0;
}

/* ----------------------------------------------------------------------------------- channels */

void mct_armv6m_plane_take(mct_armv6m_plane *plane, const int8_t *image, const int8_t *w,
                           int32_t w_step, uint32_t start) {
    const int32_t first = mct_plane_first(plane, 0);
    plane->image = image + plane->skip * plane->pixel;
    plane->row = 0;
    plane->loaded = first > 0 ? first : 0;
    plane->taps.w = w;
    plane->taps.step = w_step;
    plane->is_exact = mct_armv6m_pack_taps(&plane->taps);
    plane->of.start = start - (uint32_t)(plane->taps.sum * plane->fill);
}

/* Rows whose pixels lie apart: between them there is 0. */
static void mct_plane_load_spread(const mct_armv6m_plane *plane) {
    const mct_armv6m_load *load = &plane->load;
    uint32_t *to = load->to;
    const int8_t *x = load->x;
    for (int32_t row = 0; row < load->rows; row++, x += load->line, to += plane->width) {
        const int8_t *at = x;
        uint32_t *pair = to;
        for (int32_t n = 0; n < load->count; n++, at += load->pixel, pair += plane->spread_w) {
            const uint32_t value = (uint32_t)(int32_t)*at;
            pair[0] = value << 16;
            pair[1] = value;
        }
    }
}

/* Reads the rows of the image that are not kept yet. */
static void mct_plane_load(mct_armv6m_plane *plane) {
    mct_armv6m_load *load = &plane->load;
    const int32_t end = plane->stop < plane->h ? plane->stop : plane->h;
    load->rows = end - plane->loaded;
    if (load->rows <= 0 || load->count <= 0) {
        return;
    }
    load->x = plane->image + plane->loaded * load->line;
    load->to = plane->kept + (plane->loaded - plane->base) * plane->width + plane->at - 1;
    plane->loaded = end;
    if (plane->spread_w == 1) {
        mct_armv6m_load_rows(load);
    } else {
        mct_plane_load_spread(plane);
    }
}

/* Those from `begin` to `end` - 1, above or below the image. */
static void mct_plane_fill_rows(const mct_armv6m_plane *plane, int32_t begin, int32_t end) {
    uint32_t *kept = plane->kept - plane->base * plane->width;
    if (begin < end) {
        mct_armv6m_fill(kept + begin * plane->width, kept + end * plane->width,
                        (uint32_t)plane->fill * 0x10001u);
    }
}

/* Makes room for a band of several: rows that are kept move to its begin. */
static void mct_plane_begin_band(mct_armv6m_plane *plane, int32_t count) {
    const int32_t before = plane->base;
    mct_plane_set_rounds(plane, plane->row, count);
    if (plane->row > 0 && plane->loaded > plane->base) {
        const uint32_t *from = plane->kept + (plane->base - before) * plane->width;
        const uint32_t *end = plane->kept + (plane->loaded - before) * plane->width;
        for (uint32_t *to = plane->kept; from < end;) {
            *to++ = *from++;
        }
    }
    if (plane->loaded < plane->base) {
        plane->loaded = plane->base;
    }
    if (plane->has_border) {
        mct_plane_fill_rows(plane, plane->base, plane->stop < 0 ? plane->stop : 0);
        mct_plane_fill_rows(plane, plane->base > plane->h ? plane->base : plane->h, plane->stop);
    }
}

/* Rounds by the meaning of the words, where a pair of weights is -128 twice. */
static void mct_plane_add_exact(const mct_armv6m_rows *rows) {
    const int32_t columns = rows->row / 4;
    for (const mct_armv6m_round *round = rows->round; round != rows->rounds_end; round++) {
        const uint32_t *v = round->v;
        for (int32_t *sum = round->sums; sum < round->end; sum += rows->gap / 4) {
            for (const int32_t *end = sum + columns; sum != end; sum++, v += rows->step / 4) {
                for (int32_t k = 0; k < rows->pairs; k++) {
                    const int32_t two = mct_armv6m_exact(v[2 * k], round->w[k]);
                    *sum = (int32_t)((uint32_t)*sum + (uint32_t)two);
                }
            }
            v += rows->v_gap / 4;
        }
    }
}

int32_t mct_armv6m_plane_next(mct_armv6m_plane *plane) {
    const int32_t left = plane->rows - plane->row;
    const int32_t count = left < plane->band ? left : plane->band;
    if (count <= 0) {
        return 0;
    }
    if (plane->band < plane->rows) {
        mct_plane_begin_band(plane, count);
    }
    mct_plane_load(plane);
    plane->row += count;
    const int32_t made = count * plane->columns;
    if (plane->is_exact && plane->is_three) {
        mct_armv6m_make_three(&plane->of);
        return made;
    }
    mct_armv6m_fill((uint32_t *)plane->sums, (uint32_t *)plane->sums + made, plane->of.start);
    (plane->is_exact ? mct_armv6m_add_rounds : mct_plane_add_exact)(&plane->of);
    return made;
}

#if MCT_ARMV6M_ASSEMBLY

/* Four words at a time, after what is left of them. */
__attribute__((naked, noinline)) void mct_armv6m_fill(MCT_IN_REGISTER uint32_t *to,
                                                      MCT_IN_REGISTER const uint32_t *end,
                                                      MCT_IN_REGISTER uint32_t value) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, lr}\n\t"
                     "movs r3, r2\n\t"
                     "subs r5, r1, r0\n\t"
                     "lsrs r5, r5, #3\n\t" /* the carry says whether there is an odd one */
                     "bcc 1f\n\t"
                     "stmia r0!, {r2}\n\t"
                     "1:\n\t"
                     "lsrs r5, r5, #1\n\t"
                     "bcc 2f\n\t"
                     "stmia r0!, {r2, r3}\n\t"
                     "2:\n\t"
                     "movs r4, r2\n\t"
                     "movs r5, r2\n\t"
                     "b 4f\n\t"
                     "3:\n\t"
                     "stmia r0!, {r2, r3, r4, r5}\n\t"
                     "4:\n\t"
                     "cmp r0, r1\n\t"
                     "bne 3b\n\t"
                     "pop {r4, r5, pc}\n\t");
}

/* Two pixels at a time, from the second on if their number is odd. The offsets are those of
 * mct_armv6m_load. */
__attribute__((naked, noinline)) void
mct_armv6m_load_rows(MCT_IN_REGISTER const mct_armv6m_load *load) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r4, r5, r6, r7}\n\t"
                     "ldmia r0!, {r1, r2, r3, r4, r5, r6, r7}\n\t"
                     "ldr r0, [r0]\n\t"
                     "sub sp, #12\n\t"
                     "str r0, [sp]\n\t" /* fill */
                     "lsls r0, r0, #16\n\t"
                     "str r0, [sp, #4]\n\t"
                     "str r7, [sp, #8]\n\t" /* rows */
                     "mov r8, r1\n\t"       /* x */
                     "mov r9, r3\n\t"       /* to */
                     "mov r10, r5\n\t"      /* line */
                     "mov r11, r6\n\t"      /* width */
                     "movs r1, r2\n\t"
                     "lsls r5, r4, #2\n\t"
                     "adds r3, r3, r5\n\t"
                     "mov r12, r3\n\t" /* where a row's last word is */
                     "lsls r3, r2, #1\n\t"
                     "adr r0, 2f\n\t"
                     "lsrs r4, r4, #1\n\t"
                     "bcc 1f\n\t"
                     "adr r0, 3f\n\t"
                     "1:\n\t"
                     "mov lr, r0\n\t"
                     "movs r7, #0\n\t"
                     "6:\n\t"
                     "mov r0, r8\n\t"
                     "mov r2, r9\n\t"
                     "ldr r4, [sp]\n\t"
                     "mov pc, lr\n\t"
                     ".p2align 2\n\t"
                     "3:\n\t"
                     "movs r6, r4\n\t"
                     "subs r0, r0, r1\n\t"
                     "b 4f\n\t"
                     ".p2align 2\n\t"
                     "2:\n\t"
                     "ldrsb r6, [r0, r7]\n\t"
                     "lsls r5, r6, #16\n\t"
                     "adds r5, r5, r4\n\t"
                     "stmia r2!, {r5}\n\t"
                     "4:\n\t"
                     "ldrsb r4, [r0, r1]\n\t"
                     "lsls r5, r4, #16\n\t"
                     "adds r5, r5, r6\n\t"
                     "stmia r2!, {r5}\n\t"
                     "adds r0, r0, r3\n\t"
                     "cmp r2, r12\n\t"
                     "bne 2b\n\t"
                     "ldr r5, [sp, #4]\n\t"
                     "adds r5, r5, r4\n\t"
                     "str r5, [r2]\n\t"
                     "add r8, r10\n\t"
                     "add r9, r11\n\t"
                     "add r12, r11\n\t"
                     "ldr r5, [sp, #8]\n\t"
                     "subs r5, #1\n\t"
                     "str r5, [sp, #8]\n\t"
                     "bne 6b\n\t"
                     "add sp, #12\n\t"
                     "pop {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t");
}

/* The offsets are those of mct_armv6m_taps. */
__attribute__((naked, noinline)) int32_t
mct_armv6m_pack_taps(MCT_IN_REGISTER mct_armv6m_taps *taps) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r0, r4, r5, r6, r7}\n\t"
                     "ldmia r0!, {r1, r2, r3, r4, r5, r6, r7}\n\t"
                     "mov r10, r5\n\t" /* is_odd */
                     "subs r6, r6, r4\n\t"
                     "lsls r5, r5, #2\n\t"
                     "subs r6, r6, r5\n\t"
                     "mov r9, r6\n\t"  /* from a row's end to the next */
                     "mov r12, r4\n\t" /* pairs */
                     "mov lr, r7\n\t"  /* the end */
                     "movs r0, r1\n\t"
                     "movs r1, r2\n\t"
                     "movs r2, r3\n\t"
                     "lsls r3, r1, #1\n\t"
                     "movs r7, #0\n\t"
                     "mov r8, r7\n\t" /* the sum */
                     "subs r7, #255\n\t"
                     "subs r7, #1\n\t"
                     "mov r11, r7\n\t" /* that of two times -128 */
                     "movs r4, #1\n\t"
                     "push {r4}\n\t" /* whether they are exact */
                     "1:\n\t"
                     "mov r7, r12\n\t"
                     "adds r7, r7, r2\n\t" /* the end of the row's pairs */
                     "b 4f\n\t"
                     "5:\n\t"
                     "movs r5, #0\n\t"
                     "str r5, [sp]\n\t"
                     "b 4f\n\t"
                     "3:\n\t"
                     "movs r5, #0\n\t"
                     "ldrsb r5, [r0, r5]\n\t"
                     "ldrsb r6, [r0, r1]\n\t"
                     "adds r0, r0, r3\n\t"
                     "lsls r4, r5, #16\n\t"
                     "adds r4, r4, r6\n\t"
                     "stmia r2!, {r4}\n\t"
                     "adds r5, r5, r6\n\t"
                     "add r8, r5\n\t"
                     "cmp r5, r11\n\t"
                     "beq 5b\n\t"
                     "4:\n\t"
                     "cmp r2, r7\n\t"
                     "bne 3b\n\t"
                     "mov r5, r10\n\t"
                     "cmp r5, #0\n\t"
                     "beq 2f\n\t"
                     "movs r5, #0\n\t"
                     "ldrsb r5, [r0, r5]\n\t"
                     "adds r0, r0, r1\n\t"
                     "lsls r4, r5, #16\n\t"
                     "stmia r2!, {r4}\n\t"
                     "add r8, r5\n\t"
                     "2:\n\t"
                     "add r2, r9\n\t"
                     "cmp r2, lr\n\t"
                     "bne 1b\n\t"
                     "pop {r0, r1, r4, r5, r6, r7}\n\t"
                     "mov r2, r8\n\t"
                     "str r2, [r1, #28]\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
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
/* All sums of a row: two at a time, from the second on if their number is odd. */
#define MCT_ROW(even, odd, pairs)                                                                  \
    even ":\n\t" MCT_SUM(pairs) odd ":\n\t" MCT_SUM(pairs) "cmp r1, r12\n\t"                       \
                                                           "bne " even "b\n\t"                     \
                                                           "b 2b\n\t"
#define MCT_ROWS                                                                                   \
    MCT_ROW("3", "13", MCT_PAIRS_1)                                                                \
    MCT_ROW("4", "14", MCT_PAIRS_2)                                                                \
    MCT_ROW("5", "15", MCT_PAIRS_3)                                                                \
    MCT_ROW("6", "16", MCT_PAIRS_4)

/* The offsets are those of mct_armv6m_rows and of a round. */
__attribute__((naked, noinline)) void
mct_armv6m_add_rounds(MCT_IN_REGISTER const mct_armv6m_rows *rows) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r4, r5, r6, r7}\n\t"
                     "ldmia r0!, {r1, r2, r3, r4, r5, r6, r7}\n\t"
                     "sub sp, #12\n\t"
                     "str r1, [sp]\n\t"     /* the next round */
                     "str r2, [sp, #4]\n\t" /* their end */
                     "str r6, [sp, #8]\n\t" /* gap */
                     "mov r10, r3\n\t"      /* row */
                     "mov r8, r4\n\t"       /* step */
                     "mov r11, r5\n\t"      /* v_gap */
                     "lsrs r3, r3, #3\n\t"  /* the carry says whether their number is odd */
                     "adcs r7, r7\n\t"      /* twice the pairs, and one more if so */
                     "adr r0, 8f\n\t"
                     "lsls r7, r7, #2\n\t"
                     "ldr r7, [r0, r7]\n\t"
                     "adds r0, r0, r7\n\t"
                     "mov lr, r0\n\t" /* where a row begins */
                     "9:\n\t"
                     "ldr r0, [sp]\n\t"
                     "ldr r1, [sp, #4]\n\t"
                     "cmp r0, r1\n\t"
                     "beq 7f\n\t"
                     "ldmia r0!, {r2, r3, r4, r5}\n\t"
                     "str r0, [sp]\n\t"
                     "mov r9, r5\n\t" /* the end of the sums */
                     "movs r0, r2\n\t"
                     "movs r1, r4\n\t"
                     "mov r12, r4\n\t"
                     "add r12, r10\n\t" /* and of a row's */
                     "ldmia r3!, {r4, r5, r6, r7}\n\t"
                     "mov pc, lr\n\t"
                     "2:\n\t"
                     "cmp r1, r9\n\t"
                     "beq 9b\n\t"
                     "add r0, r11\n\t"
                     "ldr r2, [sp, #8]\n\t"
                     "adds r1, r1, r2\n\t"
                     "mov r12, r1\n\t"
                     "add r12, r10\n\t"
                     "mov pc, lr\n\t"
                     "7:\n\t"
                     "add sp, #12\n\t"
                     "pop {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t"
                     ".p2align 2\n\t"
                     "8: .word 0, 0, 3f - 8b, 13f - 8b, 4f - 8b, 14f - 8b\n\t"
                     ".word 5f - 8b, 15f - 8b, 6f - 8b, 16f - 8b\n\t" MCT_ROWS);
}

/* The same with weights that lie in a register beyond r7. */
#define MCT_PAIR_FAR(offset, weights)                                                              \
    "ldr r3, [r0, #" offset "]\n\t"                                                                \
    "mov r7, " weights "\n\t"                                                                      \
    "muls r3, r7, r3\n\t"                                                                          \
    "asrs r3, r3, #16\n\t"                                                                         \
    "adcs r2, r3\n\t"
#define MCT_THREE                                                                                  \
    "ldr r2, [sp]\n\t" MCT_PAIR("0", "r4")                                                         \
        MCT_PAIR("8", "r5") "add r0, r11\n\t" MCT_PAIR("0", "r6")                                  \
            MCT_PAIR_FAR("8", "r8") "add r0, r11\n\t" MCT_PAIR_FAR("0", "r9")                      \
                MCT_PAIR_FAR("8", "r10") "add r0, r12\n\t"                                         \
                                         "stmia r1!, {r2}\n\t"

/* The offsets are those of mct_armv6m_rows and of a round. */
__attribute__((naked, noinline)) void
mct_armv6m_make_three(MCT_IN_REGISTER const mct_armv6m_rows *rows) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r4, r5, r6, r7}\n\t"
                     "sub sp, #20\n\t"
                     "ldr r7, [r0, #28]\n\t"
                     "str r7, [sp]\n\t" /* start */
                     "ldr r6, [r0, #32]\n\t"
                     "mov r11, r6\n\t" /* further */
                     "ldmia r0!, {r1, r2, r3, r4, r5}\n\t"
                     "subs r4, r4, r6\n\t"
                     "subs r4, r4, r6\n\t"
                     "mov r12, r4\n\t"      /* from the window's last row to the next window */
                     "str r3, [sp, #4]\n\t" /* row */
                     "str r5, [sp, #8]\n\t" /* v_gap */
                     "adr r2, 3f\n\t"
                     "lsrs r4, r3, #3\n\t"
                     "bcc 1f\n\t"
                     "ldr r4, 8f\n\t"
                     "adds r2, r2, r4\n\t"
                     "1:\n\t"
                     "str r2, [sp, #16]\n\t" /* where a row begins */
                     "ldmia r1!, {r0, r2, r4, r5}\n\t"
                     "str r5, [sp, #12]\n\t" /* the end of the sums */
                     "adds r3, r3, r4\n\t"
                     "mov lr, r3\n\t" /* and of a row's */
                     "movs r1, r4\n\t"
                     "ldr r3, [r2, #20]\n\t"
                     "mov r8, r3\n\t"
                     "ldr r3, [r2, #32]\n\t"
                     "mov r9, r3\n\t"
                     "ldr r3, [r2, #36]\n\t"
                     "mov r10, r3\n\t"
                     "ldr r6, [r2, #16]\n\t"
                     "ldr r4, [r2]\n\t"
                     "ldr r5, [r2, #4]\n\t"
                     "2:\n\t"
                     "ldr r3, [sp, #16]\n\t"
                     "mov pc, r3\n\t"
                     ".p2align 2\n\t"
                     "8: .word 4f - 3f\n\t"
                     "3:\n\t" MCT_THREE "4:\n\t" MCT_THREE "cmp r1, lr\n\t"
                     "bne 3b\n\t"
                     "ldr r3, [sp, #12]\n\t"
                     "cmp r1, r3\n\t"
                     "beq 5f\n\t"
                     "ldr r3, [sp, #8]\n\t"
                     "adds r0, r0, r3\n\t"
                     "ldr r3, [sp, #4]\n\t"
                     "add lr, r3\n\t"
                     "b 2b\n\t"
                     "5:\n\t"
                     "add sp, #20\n\t"
                     "pop {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t");
}

#else

void mct_armv6m_fill(uint32_t *to, const uint32_t *end, uint32_t value) {
    while (to != end) {
        *to++ = value;
    }
}

void mct_armv6m_load_rows(const mct_armv6m_load *load) {
    const int8_t *x = load->x;
    uint32_t *to = load->to;
    for (int32_t row = 0; row < load->rows; row++, x += load->line, to += load->width / 4) {
        uint32_t before = (uint32_t)load->fill;
        for (int32_t n = 0; n < load->count; n++) {
            const uint32_t value = (uint32_t)(int32_t)x[n * load->pixel];
            to[n] = before + (value << 16);
            before = value;
        }
        to[load->count] = before + ((uint32_t)load->fill << 16);
    }
}

int32_t mct_armv6m_pack_taps(mct_armv6m_taps *taps) {
    const int8_t *w = taps->w;
    int32_t is_exact = 1, sum = 0;
    for (uint32_t *row = taps->to; row != taps->end; row += taps->row / 4) {
        uint32_t *to = row;
        for (const uint32_t *end = row + taps->pairs / 4; to != end; w += 2 * taps->step) {
            const int32_t first = w[0], second = w[taps->step];
            is_exact &= first != -128 || second != -128;
            sum += first + second;
            *to++ = (uint32_t)second + ((uint32_t)first << 16);
        }
        if (taps->is_odd) {
            sum += *w;
            *to = (uint32_t)(int32_t)*w << 16;
            w += taps->step;
        }
    }
    taps->sum = sum;
    return is_exact;
}

void mct_armv6m_add_rounds(const mct_armv6m_rows *rows) {
    for (const mct_armv6m_round *round = rows->round; round != rows->rounds_end; round++) {
        const uint32_t *v = round->v;
        for (int32_t *sum = round->sums; sum < round->end; sum += rows->gap / 4) {
            for (const int32_t *end = sum + rows->row / 4; sum != end; v += rows->step / 4) {
                uint32_t all = (uint32_t)*sum;
                for (int32_t k = 0; k < rows->pairs; k++) {
                    all += (uint32_t)mct_armv6m_two(v[2 * k], round->w[k]);
                }
                *sum++ = (int32_t)all;
            }
            v += rows->v_gap / 4;
        }
    }
}

void mct_armv6m_make_three(const mct_armv6m_rows *rows) {
    const mct_armv6m_round *round = rows->round;
    const uint32_t *v = round->v;
    for (int32_t *sum = round->sums; sum != round->end; v += rows->v_gap / 4) {
        for (const int32_t *end = sum + rows->row / 4; sum != end; v += rows->step / 4) {
            uint32_t all = rows->start;
            for (int32_t n = 0; n < 6; n++) {
                const uint32_t two = v[(n >> 1) * (rows->further / 4) + 2 * (n & 1)];
                all += (uint32_t)mct_armv6m_two(two, round->w[4 * (n >> 1) + (n & 1)]);
            }
            *sum++ = (int32_t)all;
        }
    }
}

#endif
