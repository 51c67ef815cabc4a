/* Answers test_elastic.py's questions. Words from standard input to standard output; every table has its own
 * memory, so that sanitizers see each access beyond one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mct_elastic.h"

static uint32_t word(void) {
    uint32_t found;
    if (fread(&found, sizeof found, 1, stdin) != 1) {
        exit(1);
    }
    return found;
}

static void answer(uint32_t found) {
    if (fwrite(&found, sizeof found, 1, stdout) != 1) {
        exit(1);
    }
}

static void *memory(size_t bytes) {
    void *place = malloc(bytes > 0 ? bytes : 1);
    if (place == NULL) {
        exit(1);
    }
    memset(place, 0xA5, bytes);
    return place;
}

static uint32_t *words(uint32_t count) {
    uint32_t *found = memory(count * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        found[i] = word();
    }
    return found;
}

static void choose(void) {
    const uint32_t tensors = word(), reach_count = word(), table = word(), budget = word();
    uint32_t *update_times = words(tensors);
    int32_t *importance = (int32_t *)words(tensors);
    uint32_t *always = words(MCT_ELASTIC_WORDS(tensors));
    mct_elastic_reach *reaches = memory(reach_count * sizeof *reaches);
    for (uint32_t i = 0; i < reach_count; i++) {
        reaches[i].time = word();
        reaches[i].first = (uint16_t)word();
        reaches[i].end = (uint16_t)word();
    }
    uint16_t *reach_tensors = memory(table * sizeof *reach_tensors);
    for (uint32_t i = 0; i < table; i++) {
        reach_tensors[i] = (uint16_t)word();
    }
    const mct_elastic_problem problem = {
        .update_times = update_times,
        .reaches = reaches,
        .reach_tensors = reach_tensors,
        .always = always,
        .tensor_count = (uint16_t)tensors,
        .reach_count = (uint16_t)reach_count,
    };
    void *scratch = memory(MCT_ELASTIC_SCRATCH_BYTES(tensors));
    uint32_t *selection = memory(MCT_ELASTIC_WORDS(tensors) * sizeof *selection);
    answer((uint32_t)mct_elastic_choose(&problem, importance, budget, scratch, selection));
    answer((uint32_t)MCT_ELASTIC_SCRATCH_BYTES(tensors));
    for (uint32_t i = 0; i < MCT_ELASTIC_WORDS(tensors); i++) {
        answer(selection[i]);
    }
    free(selection);
    free(scratch);
    free(reach_tensors);
    free(reaches);
    free(always);
    free(importance);
    free(update_times);
}

static void tell_budget(void) {
    const uint32_t share = word(), forward = word(), backward = word();
    answer(mct_elastic_budget(share, forward, backward));
}

int main(int count, char **arguments) {
    if (count != 2) {
        return 1;
    }
    const uint32_t questions = word();
    for (uint32_t i = 0; i < questions; i++) {
        if (strcmp(arguments[1], "choose") == 0) {
            choose();
        } else {
            tell_budget();
        }
    }
    return 0;
}
