/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_elastic.h"

#include <stdbool.h>
#include <string.h>

#define PLACES (MCT_ELASTIC_UNITS + 2u) /* for 0 … MCT_ELASTIC_UNITS, aligned */
#define DECISION_WORDS (MCT_ELASTIC_UNITS / 32u)

/* g: the most importance within each number of units, of the tensors so far. reach_of: of the best
 * selection within each. best: its importance. decisions: of the tensors of one reach, DECISION_WORDS
 * each; bit t - 1 says that the best selection of the tensor and those before within t units has it. */
typedef struct {
    const mct_elastic_problem *problem;
    const int32_t *importance;
    uint32_t *selection;
    uint32_t left; /* of the budget, beyond what is always trained */
    uint32_t unit, limit;
    int32_t *g;
    uint16_t *reach_of;
    union {
        int32_t *best;
        uint32_t *decisions;
    } then;
} search;

static bool is_chosen(const search *s, uint32_t tensor) {
    return (s->selection[tensor / 32u] >> (tensor % 32u) & 1u) != 0u;
}

static void flip(const search *s, uint32_t tensor) {
    s->selection[tensor / 32u] ^= 1u << (tensor % 32u);
}

static void choose_always(const search *s) {
    const uint32_t words = MCT_ELASTIC_WORDS((uint32_t)s->problem->tensor_count);
    memcpy(s->selection, s->problem->always, words * sizeof(uint32_t));
}

/* The nearest number of units, halves up. */
static uint32_t units_of(const search *s, uint32_t time) {
    const uint32_t whole = time / s->unit;
    const uint32_t rest = time - whole * s->unit;
    return whole + (rest >= s->unit - rest ? 1u : 0u);
}

/* What a reach takes more than the first. */
static uint32_t beyond(const search *s, uint32_t reach) {
    return s->problem->reaches[reach].time - s->problem->reaches[0].time;
}

/* Allows one more tensor of so many units. */
static void weigh(int32_t *g, uint32_t limit, uint32_t units, int32_t importance) {
    for (uint32_t t = limit + 1u; t-- > units;) {
        const int32_t with = g[t - units] + importance;
        if (with > g[t]) {
            g[t] = with;
        }
    }
}

/* The same, and notes within how many units the tensor is taken. units > 0. */
static void weigh_and_note(int32_t *g, uint32_t limit, uint32_t units, int32_t importance,
                           uint32_t *decisions) {
    for (uint32_t t = limit + 1u; t-- > units;) {
        const int32_t with = g[t - units] + importance;
        if (with > g[t]) {
            g[t] = with;
            decisions[(t - 1u) / 32u] |= 1u << ((t - 1u) % 32u);
        }
    }
}

/* The reach of the best selection within each number of units. Of a reach that extends the one before
 * only new tensors are weighed. */
static void find_reaches(const search *s) {
    const mct_elastic_problem *p = s->problem;
    for (uint32_t t = 0; t <= s->limit; t++) {
        s->g[t] = 0;
        s->then.best[t] = -1;
    }
    uint32_t begun = 0, done = 0;
    for (uint32_t r = 0; r < p->reach_count && beyond(s, r) <= s->left; r++) {
        const mct_elastic_reach *reach = &p->reaches[r];
        if (reach->first != begun) {
            begun = done = reach->first;
            memset(s->g, 0, (s->limit + 1u) * sizeof(int32_t));
        }
        for (; done < reach->end; done++) {
            const uint32_t k = p->reach_tensors[done];
            weigh(s->g, s->limit, units_of(s, p->update_times[k]), s->importance[k]);
        }
        const uint32_t units = units_of(s, beyond(s, r));
        for (uint32_t t = units; t <= s->limit; t++) {
            if (s->g[t - units] > s->then.best[t]) {
                s->then.best[t] = s->g[t - units];
                s->reach_of[t] = (uint16_t)r;
            }
        }
    }
}

/* The knapsack of one reach, with decisions. */
static void decide(const search *s, const mct_elastic_reach *reach) {
    uint32_t *decisions = s->then.decisions;
    memset(s->g, 0, (s->limit + 1u) * sizeof(int32_t));
    for (uint32_t i = reach->first; i < reach->end; i++, decisions += DECISION_WORDS) {
        const uint32_t k = s->problem->reach_tensors[i];
        const uint32_t units = units_of(s, s->problem->update_times[k]);
        memset(decisions, 0, DECISION_WORDS * sizeof(uint32_t));
        if (units == 0) {
            weigh(s->g, s->limit, 0, s->importance[k]);
        } else {
            weigh_and_note(s->g, s->limit, units, s->importance[k], decisions);
        }
    }
}

/* Chooses what the decisions say for so many units; the true time of it. */
static uint32_t take(const search *s, const mct_elastic_reach *reach, uint32_t units) {
    uint32_t time = 0;
    choose_always(s);
    for (uint32_t i = reach->end; i-- > reach->first;) {
        const uint32_t k = s->problem->reach_tensors[i];
        const uint32_t own = units_of(s, s->problem->update_times[k]);
        const uint32_t *decisions = s->then.decisions + (i - reach->first) * DECISION_WORDS;
        bool is_in = false;
        if (own == 0) {
            is_in = s->importance[k] > 0;
        } else if (units > 0) {
            is_in = (decisions[(units - 1u) / 32u] >> ((units - 1u) % 32u) & 1u) != 0u;
        }
        if (is_in) {
            flip(s, k);
            units -= own;
            time += s->problem->update_times[k];
        }
    }
    return time;
}

/* Chooses what there is still time for, the most important first, of equals the first. */
static void add(const search *s, const mct_elastic_reach *reach, uint32_t *spare) {
    const uint32_t *times = s->problem->update_times;
    int32_t gain = 1;
    while (gain > 0) {
        uint32_t coming = 0;
        gain = 0;
        for (uint32_t i = reach->first; i < reach->end; i++) {
            const uint32_t k = s->problem->reach_tensors[i];
            if (s->importance[k] > gain && times[k] <= *spare && !is_chosen(s, k)) {
                gain = s->importance[k];
                coming = k;
            }
        }
        if (gain > 0) {
            flip(s, coming);
            *spare -= times[coming];
        }
    }
}

/* Puts one tensor in the place of another so that it gains most, of equals the first that comes, then
 * the first that goes. False if none gains. */
static bool exchange(const search *s, const mct_elastic_reach *reach, uint32_t *spare) {
    const uint16_t *tensors = s->problem->reach_tensors;
    const uint32_t *times = s->problem->update_times;
    int32_t gain = 0;
    uint32_t coming = 0, going = 0;
    for (uint32_t i = reach->first; i < reach->end; i++) {
        const uint32_t in = tensors[i];
        if (s->importance[in] <= gain || is_chosen(s, in)) {
            continue;
        }
        for (uint32_t j = reach->first; j < reach->end; j++) {
            const uint32_t out = tensors[j];
            if (s->importance[in] - s->importance[out] > gain && times[in] <= *spare + times[out] &&
                is_chosen(s, out)) {
                gain = s->importance[in] - s->importance[out];
                coming = in;
                going = out;
            }
        }
    }
    if (gain > 0) {
        flip(s, going);
        flip(s, coming);
        *spare += times[going];
        *spare -= times[coming];
    }
    return gain > 0;
}

/* Uses the time that rounding left. */
static void improve(const search *s, const mct_elastic_reach *reach, uint32_t spare) {
    add(s, reach, &spare);
    uint32_t exchanges = 0;
    while (exchanges < MCT_ELASTIC_EXCHANGES && exchange(s, reach, &spare)) {
        exchanges++;
    }
}

/* The best selection that takes no more than `left` in truth: units are lowered until it does. */
static void find_selection(const search *s) {
    const mct_elastic_reach *reaches = s->problem->reaches;
    uint32_t decided = UINT32_MAX, spare = 0;
    uint32_t t = s->limit + 1u;
    bool fits = false;
    while (!fits && t-- > 0) {
        const uint32_t r = s->reach_of[t];
        if (r != decided) {
            decide(s, &reaches[r]);
            decided = r;
        }
        const uint32_t time = beyond(s, r) + take(s, &reaches[r], t - units_of(s, beyond(s, r)));
        fits = time <= s->left;
        spare = s->left - time;
    }
    if (!fits) { /* very many tensors of less than half a unit */
        choose_always(s);
        spare = s->left - beyond(s, decided);
    }
    improve(s, &reaches[decided], spare);
}

uint32_t mct_elastic_budget(uint32_t share_q16, uint32_t forward_time, uint32_t backward_time) {
    const uint32_t share = share_q16 < MCT_ELASTIC_ONE_Q16 ? share_q16 : MCT_ELASTIC_ONE_Q16;
    const uint64_t wanted = ((uint64_t)forward_time + backward_time) * share >> 16;
    return wanted > forward_time ? (uint32_t)(wanted - forward_time) : 0u;
}

mct_status mct_elastic_choose(const mct_elastic_problem *problem, const int32_t *importance,
                              uint32_t budget, void *scratch, uint32_t *selection) {
    search s = {.problem = problem, .importance = importance, .selection = selection};
    choose_always(&s);
    uint32_t least = problem->reaches[0].time;
    for (uint32_t k = 0; k < problem->tensor_count; k++) {
        least += is_chosen(&s, k) ? problem->update_times[k] : 0u;
    }
    if (least > budget) {
        return MCT_ERROR_BUDGET;
    }
    const uint32_t steps = MCT_ELASTIC_UNITS - MCT_ELASTIC_SPARE_UNITS;
    s.left = budget - least;
    s.unit = s.left / steps + (s.left % steps != 0u ? 1u : 0u);
    s.unit = s.unit > 0u ? s.unit : 1u;
    s.limit = s.left / s.unit + MCT_ELASTIC_SPARE_UNITS;
    uint8_t *bytes = scratch;
    void *behind_g = bytes + PLACES * sizeof *s.g;
    void *behind_reaches = bytes + PLACES * (sizeof *s.g + sizeof *s.reach_of);
    s.g = scratch;
    s.reach_of = behind_g;
    s.then.best = behind_reaches;
    find_reaches(&s);
    find_selection(&s);
    return MCT_OK;
}
