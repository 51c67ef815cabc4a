/* What the example uses of ESP-IDF's pins. */
#ifndef DRIVER_GPIO_H
#define DRIVER_GPIO_H

#include "../../stub.h"

typedef enum {
    GPIO_NUM_9 = 9
} gpio_num_t;
typedef enum {
    GPIO_MODE_INPUT = 1
} gpio_mode_t;
typedef enum {
    GPIO_PULLUP_ENABLE = 1
} gpio_pullup_t;
typedef struct {
    uint64_t pin_bit_mask;
    gpio_mode_t mode;
    gpio_pullup_t pull_up_en;
} gpio_config_t;

static inline int gpio_config(const gpio_config_t *config) {
    return config->mode == GPIO_MODE_INPUT ? 0 : -1;
}

static inline int gpio_get_level(gpio_num_t pin) {
    (void)pin;
    return stub_pressed() ? 0 : 1;
}

#endif
