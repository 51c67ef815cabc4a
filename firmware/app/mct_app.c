/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_app.h"

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_protocol.h"

/* All of the firmware's static memory besides the model's and the drivers'. */
static mct_protocol protocol;

/* The plan counts it, to the byte. */
_Static_assert(MCT_PROTOCOL_BYTES == 0 || sizeof protocol == MCT_PROTOCOL_BYTES,
               "PROTOCOL_BYTES of mcutrain/target.py is not the size of mct_protocol");

#ifdef MCT_TIMED_NODES
uint32_t mct_ticks(void) {
    return (uint32_t)mct_board_cycles();
}
#endif

#ifdef MCT_LEARN
void mct_app_wait(void) {
    mct_protocol_wait(&protocol);
}
#endif

void mct_app_run(void) {
    mct_board_start();
#ifdef MCT_BUTTON
    mct_board_button_start();
#endif
    mct_protocol_start(&protocol);
    for (;;) {
        const int32_t byte = mct_board_receive();
        if (byte < 0) {
            return;
        }
        mct_protocol_receive(&protocol, (uint8_t)byte);
    }
}
