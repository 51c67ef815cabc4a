/* Many samples per call, for the simulation on a host. Not part of a firmware. */
#include "mct_host.h"

#include <string.h>

int32_t mct_host_train(int32_t samples, const int8_t *x, const int32_t *labels,
                       const mct_learning_rate *rates, mct_result *results) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        const mct_status status = mct_train(labels[n], rates[n], &results[n]);
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return MCT_OK;
}

void mct_host_infer(int32_t samples, const int8_t *x, int8_t *y) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        memcpy(y + (size_t)n * MCT_OUTPUT_BYTES, mct_infer(), MCT_OUTPUT_BYTES);
    }
}
