/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a state has to be saved first, for commands that go on from a saved one. mct_protocol.c includes it where a program has it. */
#ifndef MCT_KEPT_COMMANDS_H
#define MCT_KEPT_COMMANDS_H

/* Whether the newest saved state is the present one: after a restart it may be, and one more save of it
 * might take the place of the one before. */
static bool mct_is_kept(const mct_protocol *p) {
    uint8_t header[MCT_STATE_HEADER_BYTES]; /* with the checksum */
    mct_state_read(0, sizeof header, header);
    const uint8_t *saved = mct_store_newest(&p->store);
    return saved != NULL && memcmp(saved, header, sizeof header) == 0;
}

#endif
