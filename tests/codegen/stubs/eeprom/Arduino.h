/* Of Arduino what the sketch calls. */
#pragma once
#include <cstdint>
static inline void delay(unsigned long) {
}
