/* What the sample uses of Zephyr's kernel. */
#ifndef ZEPHYR_KERNEL_H
#define ZEPHYR_KERNEL_H

#include "../../stub.h"

static inline int32_t k_msleep(int32_t milliseconds) {
    (void)milliseconds;
    stub_pause();
    return 0;
}

#endif
