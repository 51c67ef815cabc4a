/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_gradient.h"

#include <stddef.h>

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

_Static_assert(offsetof(mct_tile_gradient, mask) == 16, "order");
_Static_assert(offsetof(mct_tile_gradient, magnitudes) == 48, "order");
_Static_assert(offsetof(mct_tile_gradient, addend_factors) == 56, "order");
_Static_assert(sizeof(mct_factor) == 16 && offsetof(mct_factor, left) == 4, "order");

/* A line is an instruction. */
/* clang-format off */

/* A channel of a position, unless its bit, the highest of r2, is 0. sum: loads it to lr; factor: where on the
 * stack its multiplier and shift are; mixed: to r12 the first round of the random bits; added: to r5; place: its bits of
 * r3, the four bytes. */
#define MCT_LANE(label, sum, factor, mixed, place, added)                                                 \
    "lsls r2, r2, #1\n\t"                                                                          \
    "bcc " label "f\n\t"                                                                           \
    sum                                                                                            \
    mixed                                                                                          \
    "ldrd r4, r5, [sp, #" factor "]\n\t"                                                           \
    "mul r12, r12, r7\n\t"                                                                         \
    "lsl r5, lr, r5\n\t"                                                                           \
    "eor lr, lr, lr, asr #31\n\t"                                                                  \
    "orr r11, r11, lr\n\t"                                                                         \
    "smmul r5, r5, r4\n\t"                                                                         \
    added \
    "eor r12, r12, r12, lsr #15\n\t"                                                               \
    "mul r12, r12, r8\n\t"                                                                         \
    "eor lr, r5, r5, asr #31\n\t"                                                                  \
    "orr r10, r10, lr\n\t"                                                                         \
    "eor r12, r12, r12, lsr #15\n\t"                                                               \
    "add r5, r5, r12, lsr #16\n\t"                                                                 \
    "ssat r5, #8, r5, asr #16\n\t"                                                                 \
    "bfi r3, r5, #" place ", #8\n\t"                                                               \
    label ":\n\t"

/* The shift to the right of channel `l`, and what is added to it; factor, shift …: where on the stack these
 * are. */
#define MCT_ADDED(l, factor, shift, back, right)                                                   \
    "ldr r4, [sp, #" right "]\n\t"                                                                 \
    "asr r5, r5, r4\n\t"                                                                           \
    "ldr r4, [sp, #128]\n\t"                                                                       \
    "ldrsb lr, [r4, #" l "]\n\t"                                                                   \
    "ldr r4, [sp, #" shift "]\n\t"                                                                 \
    "lsl lr, lr, r4\n\t"                                                                           \
    "ldr r4, [sp, #" factor "]\n\t"                                                                \
    "smmul lr, lr, r4\n\t"                                                                         \
    "ldr r4, [sp, #" back "]\n\t"                                                                  \
    "asr lr, lr, r4\n\t"                                                                           \
    "add r5, r5, lr\n\t"
#define MCT_NOTHING(l, factor, shift, back, right)

/* r0 sums, r1 lane in bytes, r6 the counter's step from a channel to the next, r7 and r8 the hash's factors,
 * r9 counter, r10 seen, r11 magnitudes. On the stack 0 the multiplier and the shift of each channel; 32
 * position in bytes; 36 where dx goes on; 40 mask; 44 first; 48 step; 52 positions; 56 counts; 60 the
 * argument; 64 of each channel the addend's factor and
 * its own shift to the right; 128 where the addend goes on. -128 becomes -127: less 1, saturated, plus 1. */
#define MCT_GRADIENT(name, frame, MCT_TAKE, MCT_MORE, MCT_STEP) \
    __attribute__((naked, noinline)) void name(mct_tile_gradient *t __attribute__((unused))) { \
    __asm__ volatile( \
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t" \
        "sub sp, sp, #" frame "\n\t" \
        "str r0, [sp, #60]\n\t" \
        "ldr lr, [r0, #40]\n\t" \
        "ldrd r4, r5, [lr]\n\t" \
        "strd r4, r5, [sp]\n\t" \
        "ldrd r4, r5, [lr, #16]\n\t" \
        "strd r4, r5, [sp, #8]\n\t" \
        "ldrd r4, r5, [lr, #32]\n\t" \
        "strd r4, r5, [sp, #16]\n\t" \
        "ldrd r4, r5, [lr, #48]\n\t" \
        "strd r4, r5, [sp, #24]\n\t" \
        MCT_TAKE \
        "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9}\n\t" \
        "lsls r1, r1, #2\n\t" \
        "lsls r2, r2, #2\n\t" \
        "add r3, r3, r5\n\t" \
        "add lr, sp, #32\n\t" \
        "stm lr, {r2, r3, r4, r5, r6, r7, r9}\n\t" \
        "mov r9, r8\n\t" \
        "movw r6, #0x79b9\n\t" \
        "movt r6, #0x9e37\n\t" \
        "movw r7, #0xaaad\n\t" \
        "movt r7, #0x21f0\n\t" \
        "movw r8, #0x2d97\n\t" \
        "movt r8, #0x735a\n\t" \
        "mov r10, #0\n\t" \
        "mov r11, #0\n\t" \
        "1:\n\t" \
        "ldrd r4, r5, [sp, #40]\n\t" \
        "ldr r12, [sp, #48]\n\t" \
        "movs r3, #0\n\t" \
        "mov r2, #0xf0000000\n\t" \
        "cmp r4, #0\n\t" \
        "beq 2f\n\t" \
        "lsrs r2, r5, #3\n\t" \
        "ldrb r2, [r4, r2]\n\t" \
        "and r4, r5, #4\n\t" \
        "lsrs r2, r2, r4\n\t" \
        "add r5, r5, r12\n\t" \
        "str r5, [sp, #44]\n\t" \
        "lsls r2, r2, #28\n\t" \
        "beq 7f\n\t" \
        "2:\n\t" \
        MCT_LANE("3", "add r12, r0, r1, lsl #1\n\t" "ldr lr, [r12, r1]\n\t", "24", \
                 "add r12, r9, r6, lsl #1\n\t" "add r12, r12, r6\n\t" \
                 "eor r12, r12, r12, lsr #16\n\t", "24", MCT_MORE("3", "112", "116", "120", "124")) \
        MCT_LANE("4", "ldr lr, [r0, r1, lsl #1]\n\t", "16", \
                 "add r12, r9, r6, lsl #1\n\t" "eor r12, r12, r12, lsr #16\n\t", "16", MCT_MORE("2", "96", "100", "104", "108")) \
        MCT_LANE("5", "ldr lr, [r0, r1]\n\t", "8", \
                 "add r12, r9, r6\n\t" "eor r12, r12, r12, lsr #16\n\t", "8", MCT_MORE("1", "80", "84", "88", "92")) \
        MCT_LANE("6", "ldr lr, [r0]\n\t", "0", "eor r12, r9, r9, lsr #16\n\t", "0", MCT_MORE("0", "64", "68", "72", "76")) \
        "mov r4, #0x01010101\n\t" \
        "qsub8 r3, r3, r4\n\t" \
        "sadd8 r3, r3, r4\n\t" \
        "7:\n\t" \
        "ldrd r4, r5, [sp, #32]\n\t" \
        "ldr r12, [sp, #48]\n\t" \
        "str r3, [r5]\n\t" \
        "add r0, r0, r4\n\t" \
        "add r5, r5, r12\n\t" \
        "str r5, [sp, #36]\n\t" \
        MCT_STEP \
        "ldrd r4, r5, [sp, #52]\n\t" \
        "add r9, r9, r5\n\t" \
        "subs r4, r4, #1\n\t" \
        "str r4, [sp, #52]\n\t" \
        "bne 1b\n\t" \
        "ldr r0, [sp, #60]\n\t" \
        "strd r10, r11, [r0, #44]\n\t" \
        "add sp, sp, #" frame "\n\t" \
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"); \
}

#define MCT_TAKE_NOTHING
#define MCT_TAKE_ADDEND                                                                            \
    "ldr r10, [r0, #40]\n\t"                                                                       \
    "ldrd r4, lr, [r0, #52]\n\t"                                                                   \
    "ldr r5, [r0, #20]\n\t"                                                                        \
    "add r4, r4, r5\n\t"                                                                           \
    "str r4, [sp, #128]\n\t"                                                                       \
    "ldrd r4, r5, [lr, #0]\n\t" \
    "strd r4, r5, [sp, #64]\n\t" \
    "ldr r4, [lr, #8]\n\t" \
    "ldr r5, [r10, #8]\n\t" \
    "strd r4, r5, [sp, #72]\n\t" \
    "ldrd r4, r5, [lr, #16]\n\t" \
    "strd r4, r5, [sp, #80]\n\t" \
    "ldr r4, [lr, #24]\n\t" \
    "ldr r5, [r10, #24]\n\t" \
    "strd r4, r5, [sp, #88]\n\t" \
    "ldrd r4, r5, [lr, #32]\n\t" \
    "strd r4, r5, [sp, #96]\n\t" \
    "ldr r4, [lr, #40]\n\t" \
    "ldr r5, [r10, #40]\n\t" \
    "strd r4, r5, [sp, #104]\n\t" \
    "ldrd r4, r5, [lr, #48]\n\t" \
    "strd r4, r5, [sp, #112]\n\t" \
    "ldr r4, [lr, #56]\n\t" \
    "ldr r5, [r10, #56]\n\t" \
    "strd r4, r5, [sp, #120]\n\t"
#define MCT_NO_STEP
#define MCT_STEP_ADDEND                                                                            \
    "ldr r5, [sp, #128]\n\t"                                                                        \
    "add r5, r5, r12\n\t"                                                                          \
    "str r5, [sp, #128]\n\t"

MCT_GRADIENT(mct_tile_gradient_run, "64", MCT_TAKE_NOTHING, MCT_NOTHING, MCT_NO_STEP)
MCT_GRADIENT(mct_tile_gradient_add, "132", MCT_TAKE_ADDEND, MCT_ADDED, MCT_STEP_ADDEND)

/* clang-format on */

#else

static void mct_gradient_emulated(mct_tile_gradient *t, int adds) {
    int32_t first = t->first;
    t->seen = 0;
    t->magnitudes = 0;
    for (int32_t n = 0; n < t->positions; n++, first += t->step) {
        for (int32_t l = 0; l < 4; l++) {
            const int32_t sum = t->sums[n * t->position + l * t->lane];
            const int32_t more = adds ? t->addend[first + l] : 0; /* in dx's place, too */
            t->dx[first + l] = 0;
            if (mct_dsp_passes(t->mask, first + l) == 0) {
                continue;
            }
            const uint32_t counter =
                t->counter + (uint32_t)n * t->counts + (uint32_t)l * MCT_DSP_GOLDEN;
            t->magnitudes |= (uint32_t)(sum ^ (sum >> 31));
            int32_t fraction = mct_dsp_fraction(&t->factors[l], sum);
            if (adds) {
                const int32_t added = mct_dsp_fraction(&t->addend_factors[l], more);
                fraction += added;
            }
            t->dx[first + l] = (int8_t)mct_max(mct_dsp_round(fraction, counter, &t->seen), -127);
        }
    }
}

void mct_tile_gradient_run(mct_tile_gradient *t) {
    mct_gradient_emulated(t, 0);
}

void mct_tile_gradient_add(mct_tile_gradient *t) {
    mct_gradient_emulated(t, 1);
}

#endif

/* Element i, of channel c, the portable way. */
static int8_t mct_dsp_round_wide(const mct_dsp_writer *to, const mct_factor *factor, int32_t sum,
                                 int32_t c, int32_t i) {
    mct_gradient_writer *writer = to->writer;
    int64_t fraction = ((int64_t)sum * factor->mult_q31) >> factor->bits;
    if (writer->addend != NULL) {
        const mct_factor added = mct_factor_of(writer->addend_stage, writer->addend_change, c);
        const int8_t *addend = writer->addend;
        fraction += ((int64_t)addend[i] * added.mult_q31) >> added.bits;
    }
    writer->seen |= (uint64_t)(fraction ^ (fraction >> 63));
    const int64_t rounded = (fraction + mct_random16(to->key, (uint32_t)i)) >> MCT_FRACTION_BITS;
    return (int8_t)mct_clamp64(rounded, -127, 127);
}

/* The sums of four neighbouring channels at the elements first … first + 3, `count` of which there
 * are, the portable way. */
static __attribute__((noinline)) void mct_dsp_write4_wide(mct_dsp_writer *to,
                                                          const mct_factor *factors,
                                                          const int32_t *sums, int32_t lane,
                                                          int32_t c, int32_t first, int32_t count) {
    for (int32_t l = 0; l < count; l++) {
        const int32_t i = first + l;
        to->dx[i] = mct_dsp_passes(to->writer->mask, i)
                        ? mct_dsp_round_wide(to, &factors[l], sums[l * lane], c + l, i)
                        : 0;
    }
}

/* What the factors of four channels have in common. */
typedef struct {
    int32_t left, right; /* the largest, an or */
    int none;            /* 1: there is one without a fraction */
} mct_factors_seen;

static mct_factors_seen mct_factors_look(const mct_factor factors[4]) {
    mct_factors_seen seen = {0, 0, 0};
    for (int32_t l = 0; l < 4; l++) {
        seen.left = mct_max(seen.left, factors[l].left);
        seen.right |= factors[l].right;
        seen.none |= factors[l].bits == 0;
    }
    return seen;
}

/* Of the addend, or of nothing; 0 if they are not for the tile. */
static int mct_dsp_addend_factors(const mct_gradient_writer *writer, int32_t c,
                                  mct_factor factors[4]) {
    if (writer->addend == NULL) {
        memset(factors, 0, 4 * sizeof *factors);
        return 1;
    }
    for (int32_t l = 0; l < 4; l++) {
        factors[l] = mct_factor_of(writer->addend_stage, writer->addend_change, c + l);
    }
    const mct_factors_seen seen = mct_factors_look(factors);
    return seen.left <= 24 && !seen.none;
}

/* With an addend or shifts to the right. Not inlined: most have neither, and the stack is deep here. */
static __attribute__((noinline)) int mct_dsp_run_added(const mct_gradient_writer *writer, int32_t c,
                                                       mct_tile_gradient *tile) {
    mct_factor added[4];
    if (!mct_dsp_addend_factors(writer, c, added)) {
        return 0;
    }
    tile->addend_factors = added;
    mct_tile_gradient_add(tile);
    return 1;
}

/* By a tile; 0 if these sums are not for it, of which it may have written some. */
static int mct_dsp_write_tile(mct_dsp_writer *to, const mct_factor *factors, mct_factors_seen seen,
                              mct_dsp_sums sums, int32_t c, int32_t first, int32_t step,
                              int32_t positions) {
    mct_tile_gradient tile = {
        .sums = sums.from,
        .lane = sums.lane,
        .position = sums.position,
        .dx = to->dx,
        .mask = to->writer->mask,
        .first = first,
        .step = step,
        .positions = positions,
        .counter = (uint32_t)first * MCT_DSP_GOLDEN + to->key,
        .counts = (uint32_t)step * MCT_DSP_GOLDEN,
        .factors = factors,
        .addend = to->writer->addend == NULL ? to->dx : to->writer->addend,
    };
    if (to->writer->addend == NULL && seen.right == 0) {
        mct_tile_gradient_run(&tile);
    } else if (!mct_dsp_run_added(to->writer, c, &tile)) {
        return 0;
    }
    if (tile.magnitudes >> (31 - seen.left) != 0) {
        return 0;
    }
    to->seen |= tile.seen;
    return 1;
}

/* Positions whose addend is kept, where dx takes its place: a tile that does not work out has overwritten it. */
#define MCT_KEPT_POSITIONS 8

/* Four bytes of each position, step apart, to `to` or back from it. */
static void mct_dsp_keep(int8_t *of, int32_t step, int32_t positions, uint32_t *to, int back) {
    for (; positions > 0; positions--, of += step, to++) {
        if (back) {
            __builtin_memcpy(of, to, 4);
        } else {
            __builtin_memcpy(to, of, 4);
        }
    }
}

void mct_dsp_write_sums(mct_dsp_writer *to, const mct_factor factors[4], mct_dsp_sums sums,
                        int32_t c, int32_t count, int32_t first, int32_t step, int32_t positions) {
    const mct_factors_seen seen = mct_factors_look(factors);
    const int short_way =
        count == 4 && !seen.none && (to->writer->mask == NULL || (first | step) % 4 == 0);
    const int in_place = to->writer->addend == to->dx;
    while (positions > 0) {
        const int32_t part = in_place ? mct_min(positions, MCT_KEPT_POSITIONS) : positions;
        uint32_t kept[MCT_KEPT_POSITIONS];
        int done = 0;
        if (short_way) {
            mct_dsp_keep(to->dx + first, step, in_place ? part : 0, kept, 0);
            done = mct_dsp_write_tile(to, factors, seen, sums, c, first, step, part);
        }
        if (short_way && !done) {
            mct_dsp_keep(to->dx + first, step, in_place ? part : 0, kept, 1);
        }
        for (int32_t n = 0; !done && n < part; n++) {
            mct_dsp_write4_wide(to, factors, sums.from + n * sums.position, sums.lane, c,
                                first + n * step, count);
        }
        first += part * step;
        sums.from += part * sums.position;
        positions -= part;
    }
}
