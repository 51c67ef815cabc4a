/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen weights and the initial state, in flash. */
#ifndef MCT_CONSTANTS_H
#define MCT_CONSTANTS_H

#include <stdint.h>

extern const int32_t mct_constant_b0_frozen[2]; /* b0.frozen [2] */
extern const int32_t mct_initial_b2[2]; /* b2 [2] */
extern const int8_t mct_initial_w2[4]; /* w2 [2, 1, 1, 2] */
extern const int8_t mct_initial_w0[18]; /* w0 [2, 3, 3, 1] */
extern const int8_t mct_initial_loss_exponent[3]; /* loss.exponent [3] */
extern const int8_t mct_initial_node2_sums_dx_exponent[3]; /* node2/sums/dx.exponent [3] */
extern const uint8_t mct_initial_w2_residual[2]; /* w2.residual [2] */
extern const int8_t mct_initial_node1_dx2_exponent[3]; /* node1/dx2.exponent [3] */
extern const uint8_t mct_initial_w0_residual[5]; /* w0.residual [5] */

#endif
