/* The host bodies' vector form of mct_update_row_s8, here without vectors. */
#ifndef MCT_UPDATE_ROW_H
#define MCT_UPDATE_ROW_H

#include "mct_gradient_tile.h"
#include "mct_update.h"

static inline void mct_update_row_vector(const mct_updater *u, const int32_t *sums, int32_t first,
                                         int32_t count, int32_t rate, int8_t *w,
                                         uint8_t *residual) {
    mct_update_row_s8(u, sums, first, count, rate, w, residual);
}

#endif
