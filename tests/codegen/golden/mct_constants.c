/* SPDX-License-Identifier: LicenseRef-model
 * The numbers are the model's: they stay under the licence of their owner. */
#include "mct_constants.h"

/* b0.frozen [2] */
const int32_t mct_constant_b0_frozen[2] = {
    1836, 222,
};

/* b2 [2] */
const int32_t mct_initial_b2[2] = {
    177, 1581,
};

/* w2 [2, 1, 1, 2] */
const int8_t mct_initial_w2[4] = {
    28, -3, -29, 20,
};

/* w0 [2, 3, 3, 1] */
const int8_t mct_initial_w0[18] = {
    -40, -66, -12, 21, 57, 5, -28, -39, 37, 82, 14, -62, -48, 80, 10, -87, -4, -58,
};

/* loss.exponent [3] */
const int8_t mct_initial_loss_exponent[3] = {
    -40, -128, -128,
};

/* node2/sums/dx.exponent [3] */
const int8_t mct_initial_node2_sums_dx_exponent[3] = {
    -40, -128, -128,
};

/* w2.residual [2] */
const uint8_t mct_initial_w2_residual[2] = {
    136, 136,
};

/* node1/dx2.exponent [3] */
const int8_t mct_initial_node1_dx2_exponent[3] = {
    -40, -128, -128,
};

/* w0.residual [5] */
const uint8_t mct_initial_w0_residual[5] = {
    170, 170, 170, 170, 10,
};
