/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of one bias. */

static MCT_ACC mct_bias_sum(const MCT_GRAD *dy, int32_t positions, int32_t channels, int32_t c) {
    MCT_ACC sum = 0;
    for (int32_t position = 0; position < positions; position++) {
        sum += dy[position * channels + c];
    }
    return sum;
}
