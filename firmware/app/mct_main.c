/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_app.h"
#include "mct_board.h"

int main(void) {
    mct_app_run();
    mct_board_restart();
}
