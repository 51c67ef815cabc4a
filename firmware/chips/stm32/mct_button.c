/* SPDX-License-Identifier: Apache-2.0 */
/* A button at pin MCT_BUTTON_PIN of the port at MCT_BUTTON_GPIO, which reads MCT_BUTTON_PRESSED while it is
 * down. All families' ports lie 0x400 apart, the first at a multiple of 0x4000. */
#include "mct_board.h"

#ifdef MCT_BUTTON
#include "mct_stm32_common.h"

#define PAIR (2u * MCT_BUTTON_PIN)

void mct_board_button_start(void) {
    mct_pin_alternate((char)('A' + (MCT_BUTTON_GPIO >> 10 & 15u)), MCT_BUTTON_PIN,
                      0);                               /* its clock */
    const uint32_t pull = MCT_BUTTON_PRESSED ? 2u : 1u; /* to the other level */
    MCT_REGISTER(MCT_BUTTON_GPIO + 0x0Cu) =
        (MCT_REGISTER(MCT_BUTTON_GPIO + 0x0Cu) & ~(3u << PAIR)) | pull << PAIR;
    MCT_REGISTER(MCT_BUTTON_GPIO) &= ~(3u << PAIR); /* MODER: an input */
}

bool mct_board_button(void) {
    return (MCT_REGISTER(MCT_BUTTON_GPIO + 0x10u) >> MCT_BUTTON_PIN & 1u) == MCT_BUTTON_PRESSED;
}
#endif
