/* SPDX-License-Identifier: Apache-2.0 */
/* A button between pin MCT_BUTTON_PIN and ground (2.19, 2.3.1.7; RP2350: 9, 3.1.11). */
#include "mct_board.h"

#ifdef MCT_BUTTON
#include "mct_rp2.h"

#define GPIO_IN 0xD0000004u
#define FUNCTION_SIO 5u
#define INPUT_PULLED_UP (1u << 6 | 1u << 3 | 1u << 1) /* IE, PUE, SCHMITT */

_Static_assert(MCT_BUTTON_PRESSED == 0, "the pin is pulled up");

void mct_board_button_start(void) {
    mct_peripheral_on(MCT_RESETS_IO_BANK0 | MCT_RESETS_PADS_BANK0);
    MCT_REGISTER(MCT_PADS_BANK0 + 4u + 4u * MCT_BUTTON_PIN) = INPUT_PULLED_UP;
    MCT_REGISTER(MCT_IO_BANK0 + 4u + 8u * MCT_BUTTON_PIN) = FUNCTION_SIO;
}

bool mct_board_button(void) {
    return (MCT_REGISTER(GPIO_IN) >> MCT_BUTTON_PIN & 1u) == 0;
}
#endif
