/* mct_update.c with masters in double precision, for benchmarks/many_classes.py alone: neither limits
 * nor random rounding. The network computes with their nearest integers. A program keeps the masters
 * of one run: they start from the parameters that the first update of a node finds. */
#include "mct_update.h"

#include <math.h>
#include <stdlib.h>

#include "mct_fixedpoint.h"
#include "mct_gradient.h"

#define MASTERS 256 /* trained parameters, at most */

/* values[index] of a parameter. */
typedef struct {
    const mct_parameter *parameter;
    int32_t count;
    double *values;
} mct_masters;

static mct_masters all[MASTERS];

mct_updater mct_update_begin(const mct_parameter *parameter, const mct_step *step,
                             const mct_exponent *dy_exponent, int32_t dropped_bits) {
    return (mct_updater){
        .parameter = parameter,
        .step = step,
        .key = 0,
        .exponent = dy_exponent->now + dropped_bits,
    };
}

static mct_masters *mct_masters_of(const mct_parameter *parameter) {
    int32_t i = 0;
    while (all[i].parameter != NULL && all[i].parameter != parameter) {
        i++;
        if (i == MASTERS) {
            abort();
        }
    }
    all[i].parameter = parameter;
    return &all[i];
}

/* The masters of the elements first … first + count - 1. Those that have not begun are NAN. */
static double *mct_masters_row(const mct_parameter *parameter, int32_t first, int32_t count) {
    mct_masters *m = mct_masters_of(parameter);
    const int32_t end = first + count;
    if (end > m->count) {
        m->values = realloc(m->values, (size_t)end * sizeof(double));
        if (m->values == NULL) {
            abort();
        }
        for (; m->count < end; m->count++) {
            m->values[m->count] = NAN;
        }
    }
    return m->values + first;
}

static double mct_power_of_two(int32_t exponent) {
    double power = 1;
    for (; exponent > 0; exponent--) {
        power *= 2;
    }
    for (; exponent < 0; exponent++) {
        power /= 2;
    }
    return power;
}

/* Learning rate times rate, for sums of the updater's exponent. */
static double mct_rate_of(const mct_updater *u, int32_t channel) {
    const mct_parameter *parameter = u->parameter;
    const int32_t c = parameter->per_channel ? channel : 0;
    const int32_t exponent = parameter->shift[c] + u->step->lr_shift + u->exponent - 62;
    return (double)parameter->mult_q31[c] * u->step->lr_mult_q31 *
           mct_power_of_two(exponent - parameter->residual_bits);
}

static double mct_moved(double master, double delta, double limit) {
    const double updated = master - delta;
    return updated > limit ? limit : (updated < -limit ? -limit : updated);
}

static int32_t mct_nearest(double x) {
    return (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
}

static void mct_move(double *master, int8_t *w, double delta) {
    *master = mct_moved(isnan(*master) ? *w : *master, delta, 127);
    *w = (int8_t)mct_nearest(*master);
}

static void mct_update_weight(const mct_updater *u, int32_t c, int32_t sum, int32_t index) {
    int8_t *w = (int8_t *)u->parameter->values + index;
    mct_move(mct_masters_row(u->parameter, index, 1), w, mct_rate_of(u, c) * sum);
}

mct_updater mct_update_begin_s8(const mct_parameter *parameter, const mct_step *step,
                                const mct_exponent *dy_exponent, int32_t positions) {
    (void)positions;
    return mct_update_begin(parameter, step, dy_exponent, 0);
}

mct_updater mct_update_begin_s16(const mct_parameter *parameter, const mct_step *step,
                                 const mct_exponent *dy_exponent, int32_t positions) {
    (void)positions;
    mct_updater u = mct_update_begin(parameter, step, dy_exponent, MCT_DROPPED_BITS_S16);
    u.kept_bits = MCT_DROPPED_BITS_S16;
    return u;
}

/* The channel stands for its rate. */
mct_rate mct_update_rate(const mct_updater *u, int32_t c) {
    (void)u;
    return (mct_rate){.mult_q31 = c};
}

void mct_update_scaled_s8(const mct_updater *u, const mct_rate *rate, int32_t factor,
                          const int32_t *sums, int32_t first, int32_t count) {
    const double exact = mct_power_of_two(-u->kept_bits);
    const double scale = mct_rate_of(u, rate->mult_q31) * factor * exact;
    double *masters = mct_masters_row(u->parameter, first, count);
    int8_t *w = (int8_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        mct_move(masters + j, w + j, scale * sums[j]);
    }
}

void mct_update_apart_s8(const mct_updater *u, const mct_rate *rate, const int32_t *sums,
                         int32_t first, int32_t count, int32_t stride) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_scaled_s8(u, rate, 1, sums + j, first + j * stride, 1);
    }
}

void mct_update_nothing_s8(const mct_updater *u, int32_t first, int32_t count) {
    (void)u, (void)first, (void)count;
}

void mct_update_row_s8(const mct_updater *u, int32_t c, const int32_t *sums, int32_t first,
                       int32_t count) {
    const mct_rate rate = mct_update_rate(u, c);
    mct_update_scaled_s8(u, &rate, 1, sums, first, count);
}

void mct_update_channels_s8(const mct_updater *u, const int32_t *sums, int32_t first,
                            int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_weight(u, j, sums[j], first + j);
    }
}

void mct_update_row_wide_s8(const mct_updater *u, int32_t c, const int64_t *sums, int32_t first,
                            int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_weight(u, c, mct_narrow_sum_s16(sums[j]), first + j);
    }
}

void mct_update_channels_wide_s8(const mct_updater *u, const int64_t *sums, int32_t first,
                                 int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_weight(u, j, mct_narrow_sum_s16(sums[j]), first + j);
    }
}

void mct_update_biases_s32(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    double *masters = mct_masters_row(u->parameter, first, count);
    int32_t *b = (int32_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        const double delta = mct_rate_of(u, first + j) * sums[j];
        const double master = isnan(masters[j]) ? b[j] : masters[j];
        masters[j] = mct_moved(master, delta, MCT_BIAS_LIMIT);
        b[j] = mct_nearest(masters[j]);
    }
}

void mct_update_biases_wide_s32(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        const int32_t sum = mct_narrow_sum_s16(sums[j]);
        mct_update_biases_s32(u, &sum, first + j, 1);
    }
}

/* A difference's master is in units of 2^shift, as the difference is. */
void mct_update_biases_s16(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    const double units = mct_power_of_two(u->parameter->residual_bits);
    double *masters = mct_masters_row(u->parameter, first, count);
    int16_t *b = (int16_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        const double delta = mct_rate_of(u, first + j) * units * sums[j];
        const double master = isnan(masters[j]) ? b[j] : masters[j];
        masters[j] = mct_moved(master, delta, MCT_DIFFERENCE_LIMIT);
        b[j] = (int16_t)mct_nearest(masters[j]);
    }
}

void mct_update_biases_wide_s16(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        const int32_t sum = mct_narrow_sum_s16(sums[j]);
        mct_update_biases_s16(u, &sum, first + j, 1);
    }
}

static int32_t mct_accumulated(const mct_step *step, int32_t sum, int32_t total) {
    const int64_t added = step->sample == 0 ? sum : (int64_t)total + sum;
    return (int32_t)mct_clamp64(added, INT32_MIN, INT32_MAX);
}

void mct_accumulate_s32(const mct_step *step, const int32_t *sums, int32_t count, int32_t *total) {
    for (int32_t j = 0; j < count; j++) {
        total[j] = mct_accumulated(step, sums[j], total[j]);
    }
}

void mct_accumulate_wide_s32(const mct_sum_rule *rule, const mct_step *step, const int64_t *sums,
                             int32_t first, int32_t count, int32_t *total) {
    (void)first;
    for (int32_t j = 0; j < count; j++) {
        const int32_t sum = mct_saturate32(sums[j] >> rule->dropped_bits);
        total[j] = mct_accumulated(step, sum, total[j]);
    }
}
