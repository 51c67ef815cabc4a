/* SPDX-License-Identifier: Apache-2.0 */
/* The second stage of booting: 252 bytes and their CRC-32/MPEG-2, which the boot ROM copies to the
 * RAM and runs after each reset, because it alone knows no flash chip's commands (2.8.1). Sets the
 * flash up as mct_rp2040.h says and goes on with the vector table behind it. */
__asm__(".section .boot2, \"a\", %progbits\n"
        ".syntax unified\n"
        ".thumb\n"
        ".balign 4\n"
        "mct_boot2:\n"
        "    ldr  r3, ssi\n"
        "    movs r0, #0\n"
        "    str  r0, [r3, #0x08]\n" /* SSIENR: off, or it takes no settings */
        "    movs r1, #4\n"
        "    str  r1, [r3, #0x14]\n" /* BAUDR */
        "    ldr  r1, ctrlr0\n"
        "    str  r1, [r3, #0x00]\n" /* CTRLR0 */
        "    str  r0, [r3, #0x04]\n" /* CTRLR1: one frame at a time */
        "    ldr  r1, spi_ctrlr0\n"
        "    movs r2, #0xF4\n"
        "    str  r1, [r3, r2]\n" /* SPI_CTRLR0 */
        "    movs r0, #1\n"
        "    str  r0, [r3, #0x08]\n" /* SSIENR: on */
        "    ldr  r0, vectors\n"
        "    ldr  r1, vtor\n"
        "    str  r0, [r1]\n"
        "    ldm  r0, {r0, r1}\n" /* stack pointer, reset */
        "    msr  msp, r0\n"
        "    bx   r1\n"
        ".balign 4\n"
        "ssi:        .word 0x18000000\n"
        "ctrlr0:     .word 0x001F0300\n"
        "spi_ctrlr0: .word 0x03000218\n"
        "vectors:    .word 0x10000100\n"
        "vtor:       .word 0xE000ED08\n"
        ".org 252\n"
        ".word 0xD58FE06D\n" /* the CRC */
        ".text\n");
