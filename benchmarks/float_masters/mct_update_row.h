/* The host bodies' vector form of mct_update_row_s8, here without vectors. */
#ifndef MCT_UPDATE_ROW_H
#define MCT_UPDATE_ROW_H

#include "mct_gradient_tile.h"
#include "mct_update.h"

static inline void mct_update_row_vector(const mct_updater *u, int32_t c, const int32_t *sums,
                                         int32_t first, int32_t count) {
    if (c < 0) {
        mct_update_channels_s8(u, sums, first, count);
    } else {
        mct_update_row_s8(u, c, sums, first, count);
    }
}

#endif
