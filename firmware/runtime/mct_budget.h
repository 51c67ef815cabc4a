/* SPDX-License-Identifier: Apache-2.0 */
/* What a call may still compute of a step that returns in between, in estimated instructions. */
#ifndef MCT_BUDGET_H
#define MCT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* has_run: whether this call computed something; the first piece always may run, or a step with a piece
 * above its budget would never end. */
typedef struct {
    uint32_t left;
    bool has_run;
} mct_budget;

static inline bool mct_budget_allows(const mct_budget *budget, uint32_t cost) {
    return !budget->has_run || cost <= budget->left;
}

static inline void mct_budget_take(mct_budget *budget, uint32_t cost) {
    budget->has_run = budget->has_run || cost > 0;
    budget->left -= cost < budget->left ? cost : budget->left;
}

#ifdef __cplusplus
}
#endif

#endif
