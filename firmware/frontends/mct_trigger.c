/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_trigger.h"

#define FRACTION_BITS 6
#define RISE 8 /* powers of two of frames, by which the background follows */
#define FALL 3

static uint32_t distance(int32_t x, int32_t y) {
    return (uint32_t)(x < y ? y - x : x - y);
}

void mct_trigger_add(mct_trigger *trigger, int16_t *last, uint32_t width, const int16_t *samples,
                     uint32_t count) {
    const uint32_t numbers = count * width;
    uint32_t sum = trigger->activity;
    for (uint32_t i = 0; trigger->has_last && i < width && i < numbers; i++) {
        sum += distance(samples[i], last[i]);
    }
    for (uint32_t i = width; i < numbers; i++) {
        sum += distance(samples[i], samples[i - width]);
    }
    for (uint32_t i = 0; i < width && i < numbers; i++) {
        last[i] = samples[numbers - width + i];
        trigger->has_last = 1;
    }
    trigger->activity = sum < MCT_MOST_ACTIVITY ? sum : MCT_MOST_ACTIVITY;
}

/* Both are below 2^30. >> of a negative number is arithmetic, as everywhere here. */
static uint32_t followed(uint32_t background, uint32_t scaled) {
    const int32_t change = (int32_t)scaled - (int32_t)background;
    return background + (uint32_t)(change >> (change < 0 ? FALL : RISE));
}

int32_t mct_trigger_frame(mct_trigger *trigger, const mct_trigger_params *params,
                          uint32_t *activity) {
    const uint32_t found = trigger->activity, scaled = found << FRACTION_BITS;
    *activity = found;
    trigger->activity = 0;
    trigger->background = trigger->frames == 0 ? scaled : trigger->background;
    trigger->frames += trigger->frames < params->window;
    const uint32_t bound = (trigger->background >> FRACTION_BITS) * params->ratio >> 4;
    const int32_t is_loud = found > params->floor && found > bound;
    trigger->background = followed(trigger->background, scaled);
    trigger->loud = is_loud ? trigger->loud + (trigger->loud < params->least) : 0;
    if (trigger->waiting > 0) {
        trigger->waiting--;
        return trigger->waiting == 0;
    }
    if (!is_loud) {
        trigger->is_armed = 1;
        return 0;
    }
    if (!trigger->is_armed || trigger->loud < params->least) {
        return 0;
    }
    trigger->is_armed = 0;
    const uint32_t behind = params->window - params->before - params->least;
    const uint32_t missing = params->window - trigger->frames;
    trigger->waiting = behind > missing ? behind : missing;
    return trigger->waiting == 0;
}

int32_t mct_trigger_still(mct_trigger *trigger, uint32_t floor, uint32_t *activity) {
    const int32_t has_changed = trigger->is_armed;
    *activity = trigger->has_last ? trigger->activity : MCT_MOST_ACTIVITY;
    trigger->has_last = 1;
    trigger->activity = 0;
    trigger->is_armed = *activity > floor;
    return has_changed && !trigger->is_armed;
}

uint32_t mct_trigger_loudest(const uint32_t *activities, uint32_t size, uint32_t kept,
                             uint32_t next, uint32_t window) {
    uint64_t sum = 0, most = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < kept; i++) { /* from the oldest frame on */
        sum += activities[(next + size - kept + i) % size];
        if (i >= window) {
            sum -= activities[(next + size - kept + i - window) % size];
        }
        if (i + 1 >= window && sum >= most) {
            most = sum;
            best = kept - 1 - i;
        }
    }
    return best;
}
