/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_rp2.h"

#define CHIP_INFO 1u
#define WORDS 4u /* what is there; package; number, its lower half first */

/* get_sys_info of the boot ROM (5.4.8.17). A ROM that does not answer leaves zeros. */
void mct_chip_number(uint8_t number[MCT_CHIP_NUMBER_BYTES]) {
    typedef int32_t get_sys_info(uint32_t *words, uint32_t count, uint32_t flags);
    get_sys_info *const ask = (get_sys_info *)(uintptr_t)mct_rom_function('G', 'S');
    uint32_t words[WORDS] = {0};
    (void)ask(words, WORDS, CHIP_INFO);
    for (uint32_t i = 0; i < MCT_CHIP_NUMBER_BYTES; i++) {
        number[i] = (uint8_t)(words[3u - i / 4u] >> (24u - 8u * (i % 4u)));
    }
}
