/* SPDX-License-Identifier: Apache-2.0 */
/* What the flash drivers of the families have in common: where the slots are, and how the controller is
 * opened and waited for. Whoever includes it has defined KEYR, SR and CR, the addresses of these
 * registers; SR_BUSY; SR_ERRORS, and SR_CLEARED, which a write clears; CR_LOCK. */
static uint32_t slot_address(int32_t slot) {
    return slot == 0 ? MCT_SLOT_0 : MCT_SLOT_1;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return (const uint8_t *)(uintptr_t)slot_address(slot);
}

/* Keys to a controller that is open already would shut it until the next reset. */
static void unlock(void) {
    if ((MCT_REGISTER(CR) & CR_LOCK) != 0) {
        MCT_REGISTER(KEYR) = 0x45670123u;
        MCT_REGISTER(KEYR) = 0xCDEF89ABu;
    }
    MCT_REGISTER(SR) = SR_CLEARED;
}

static bool finished(void) {
    mct_synchronize(); /* the busy bit is true one cycle after the start */
    while ((MCT_REGISTER(SR) & SR_BUSY) != 0) {
    }
    return (MCT_REGISTER(SR) & SR_ERRORS) == 0;
}
