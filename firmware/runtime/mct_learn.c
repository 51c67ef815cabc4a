/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_learn.h"

void mct_learn_start(mct_learn *learn) {
    *learn = (mct_learn){.last = -1, .label = -1};
}

/* The class that is well above all others, and not too low, or -1. */
static int32_t mct_learn_class(const mct_learn_params *params, const int8_t *scores,
                               int32_t classes) {
    int32_t best = 0, second = -1;
    for (int32_t i = 1; i < classes; i++) {
        if (scores[i] > scores[best]) {
            second = best;
            best = i;
        } else if (second < 0 || scores[i] > scores[second]) {
            second = i;
        }
    }
    const bool is_clear = second < 0 || scores[best] - scores[second] >= params->margin;
    const bool is_high = scores[best] >= params->least;
    return is_clear && is_high && best != params->quiet ? best : -1;
}

int32_t mct_learn_hear(mct_learn *learn, const mct_learn_params *params, const int8_t *scores,
                       int32_t classes) {
    const int32_t found = mct_learn_class(params, scores, classes);
    if (learn->wait > 0) {
        learn->wait--;
        return -1;
    }
    if (found < 0) {
        learn->run = 0;
    } else {
        learn->run = found == learn->last ? learn->run + 1u : 1u;
    }
    learn->last = found;
    if (found < 0 || learn->run < params->agree) {
        return -1;
    }
    learn->run = 0;
    learn->last = -1;
    learn->wait = params->pause;
    return found;
}

bool mct_learn_gather(mct_learn *learn, int32_t label, int32_t known, uint32_t samples,
                      int32_t classes) {
    const int32_t others = known - (label < known ? 1 : 0);
    if (samples == 0 || label < 0 || label >= classes || known > classes || others < 1) {
        return false;
    }
    learn->label = label;
    learn->known = known;
    learn->left = samples;
    return true;
}

mct_learn_action mct_learn_sample(mct_learn *learn) {
    if (learn->left == 0) {
        return MCT_LEARN_NOTHING;
    }
    learn->left--;
    return learn->left > 0 ? MCT_LEARN_COLLECT : MCT_LEARN_IMPRINT;
}

mct_button_event mct_button_look(mct_button *button, const mct_button_params *params, bool is_down,
                                 uint32_t now) {
    if (is_down != button->level) {
        button->level = is_down;
        button->changed = now;
    }
    if (is_down != button->is_down && now - button->changed >= params->settle) {
        button->is_down = is_down;
        if (!is_down) {
            return button->is_held ? MCT_BUTTON_NOTHING : MCT_BUTTON_CLICKED;
        }
        button->down = now;
        button->is_held = false;
    }
    if (is_down && button->is_down && !button->is_held && now - button->down >= params->hold) {
        button->is_held = true;
        return MCT_BUTTON_HELD;
    }
    return MCT_BUTTON_NOTHING;
}
