/* SPDX-License-Identifier: Apache-2.0 */
/* A button between pin MCT_BUTTON_PIN and ground: "GPIO — General purpose input/output". */
#include "mct_board.h"

#ifdef MCT_BUTTON
#include "mct_nrf5.h"

#define PORT MCT_NRF5_GPIO(MCT_BUTTON_PIN)
#define INPUT_PULLED_UP 12u

_Static_assert(MCT_BUTTON_PRESSED == 0, "the pin is pulled up");

void mct_board_button_start(void) {
    MCT_REGISTER(PORT + 0x700u + 4u * (MCT_BUTTON_PIN % 32u)) = INPUT_PULLED_UP; /* PIN_CNF */
}

bool mct_board_button(void) {
    return (MCT_REGISTER(PORT + 0x510u) >> MCT_BUTTON_PIN % 32u & 1u) == 0; /* IN */
}
#endif
