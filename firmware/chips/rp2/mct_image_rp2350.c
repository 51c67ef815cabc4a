/* SPDX-License-Identifier: Apache-2.0 */
/* The block that tells the boot ROM what this is: a program for the RP2350's Arm cores in the secure state,
 * with its vectors where the flash begins (5.9.5, "Minimum Arm IMAGE_DEF"). */
#include <stdint.h>

static const uint32_t image_definition[] __attribute__((section(".image_def"), used)) = {
    0xFFFFDED3u, /* a block begins */
    0x10210142u, /* item: image type, one word; executable, secure, Arm, RP2350 */
    0x000001FFu, /* last item, behind one word */
    0u,          /* the next block is this one */
    0xAB123579u, /* the block ends */
};
