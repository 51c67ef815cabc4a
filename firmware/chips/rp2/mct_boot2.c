/* SPDX-License-Identifier: Apache-2.0 */
/* The second stage of booting: 252 bytes and their CRC-32/MPEG-2. The boot ROM knows no flash chip's
 * commands, so it copies these bytes to RAM and runs them after each reset, with 0 as return address
 * (2.8.1). They set up the flash and start what the vector table behind them says. The flash driver
 * calls a copy of them, too, after each erase and write; they return to it.
 *
 * Two ways to read the flash (4.10, "SSI"; W25Q16JV, chapter 8):
 *
 *     quad    continuous read EBh on four lines, at half of the core's clock: 62.5 MHz
 *     serial  command 03h on one line, which every chip knows, at a quarter of the clock: 31 MHz
 *
 * Quad needs a maker whose chips are known to work so (command 9Fh), and the bit QE of status register 2
 * (command 35h). Where QE is clear, it is set until the power goes (50h, then 31h or 01h): nothing that
 * lasts is written, so a power cut can do no harm. Where it stays clear, serial it is. */
__asm__(".section .boot2, \"a\", %progbits\n"
        ".syntax unified\n"
        ".thumb\n"
        ".balign 4\n"
        "mct_boot2:\n"
        "    push {r4, r5, r6, r7, lr}\n"
        "    movs r3, #0x18\n"
        "    lsls r3, r3, #24\n" /* SSI */
        "    movs r4, #4\n"      /* BAUDR */
        "    movs r0, #0\n"
        "    movs r1, #7\n"
        "    lsls r1, r1, #16\n" /* CTRLR0: bytes, each with an answer */
        "    bl   .Lset_up\n"
        "    movs r0, #0x9F\n"
        "    bl   .Lask\n"
        "    cmp  r0, #0xEF\n" /* Winbond */
        "    beq  .Lknown\n"
        "    cmp  r0, #0xC8\n" /* GigaDevice */
        "    bne  .Lserial\n"
        ".Lknown:\n"
        "    movs r7, #1\n" /* how often to set QE */
        ".Lcheck:\n"
        "    movs r0, #0x05\n"
        "    bl   .Lask\n"
        "    lsls r6, r0, #8\n" /* 01h's first value: status register 1, as it is */
        "    movs r0, #0x35\n"
        "    bl   .Lask\n"
        "    cmp  r0, #0xFF\n" /* no answer */
        "    beq  .Lserial\n"
        "    lsrs r1, r0, #2\n" /* QE */
        "    bcs  .Lquad\n"
        "    subs r7, #1\n"
        "    bmi  .Lserial\n"
        "    adds r0, #2\n"
        "    lsls r0, r0, #16\n"
        "    adds r6, r6, r0\n" /* and its second */
        "    bl   .Lenable\n"
        "    lsrs r0, r6, #16\n"
        "    lsls r0, r0, #8\n"
        "    adds r0, #0x31\n"
        "    bl   .Lask\n"
        "    bl   .Lenable\n" /* chips without 31h take both values by 01h */
        "    adds r0, r6, #1\n"
        "    movs r1, #3\n"
        "    bl   .Lexchange\n"
        "    b    .Lcheck\n"

        /* r0: bytes, the first one lowest; r1: how many. Returns the last answer in r0. */
        ".Lenable:\n"
        "    movs r0, #0x50\n"
        "    movs r1, #1\n"
        "    b    .Lexchange\n"
        ".Lask:\n"
        "    movs r1, #2\n"
        ".Lexchange:\n"
        "    mov  r5, r1\n"
        "1:  uxtb r2, r0\n"
        "    str  r2, [r3, #0x60]\n" /* DR0: the chip stays selected while there are bytes */
        "    lsrs r0, r0, #8\n"
        "    subs r1, #1\n"
        "    bne  1b\n"
        "2:  ldr  r2, [r3, #0x28]\n" /* SR */
        "    cmp  r2, #0x0E\n"       /* all sent, all answered */
        "    bne  2b\n"
        "3:  ldr  r0, [r3, #0x60]\n"
        "    subs r5, #1\n"
        "    bne  3b\n"
        "    bx   lr\n"

        /* r0: SPI_CTRLR0, r1: CTRLR0, r4: BAUDR. */
        ".Lset_up:\n"
        "    movs r2, #0\n"
        "    str  r2, [r3, #0x08]\n" /* SSIENR: off, or it takes no settings */
        "    str  r1, [r3, #0x00]\n"
        "    str  r2, [r3, #0x04]\n" /* CTRLR1: one frame at a time */
        "    str  r4, [r3, #0x14]\n"
        "    movs r1, #1\n"
        "    movs r2, #0xF0\n"
        "    str  r1, [r3, r2]\n" /* RX_SAMPLE_DLY: data come a clock of the core later */
        "    adds r2, #4\n"
        "    str  r0, [r3, r2]\n"
        "    str  r1, [r3, #0x08]\n" /* SSIENR: on */
        "    bx   lr\n"

        ".Lquad:\n"
        "    ldr  r0, .Lpads\n" /* fast enough for 62.5 MHz (2.19.6.4) */
        "    movs r1, #0x21\n"  /* SCLK: 8 mA, fast */
        "    str  r1, [r0, #0x04]\n"
        "    movs r1, #0x50\n" /* SD0 to SD3: as after a reset, without their Schmitt triggers */
        "    str  r1, [r0, #0x08]\n"
        "    str  r1, [r0, #0x0C]\n"
        "    str  r1, [r0, #0x10]\n"
        "    str  r1, [r0, #0x14]\n"
        "    movs r4, #2\n"
        "    ldr  r0, .Lquad_command\n"
        "    ldr  r1, .Lquad_frames\n"
        "    bl   .Lset_up\n"
        "    movs r0, #0xA0\n" /* mode: go on without a command */
        "    lsls r0, r0, #8\n"
        "    adds r0, #0xEB\n"
        "    bl   .Lask\n"
        "    ldr  r0, .Lquad_read\n"
        "    ldr  r1, .Lquad_frames\n"
        "    b    .Lread\n"
        ".Lserial:\n"
        "    ldr  r0, .Lserial_read\n"
        "    ldr  r1, .Lserial_frames\n"
        ".Lread:\n"
        "    bl   .Lset_up\n"
        "    pop  {r4, r5, r6, r7}\n"
        "    pop  {r0}\n"
        "    cmp  r0, #0\n"
        "    beq  .Lstart\n"
        "    bx   r0\n"
        ".Lstart:\n"
        "    ldr  r0, .Lvectors\n"
        "    ldm  r0, {r0, r1}\n" /* stack pointer, reset */
        "    msr  msp, r0\n"
        "    bx   r1\n"
        ".balign 4\n"
        ".Lpads:          .word 0x40020000\n"
        ".Lquad_frames:   .word 0x005F0300\n" /* four lines, 32 bits; command, address, then read */
        ".Lquad_command:  .word 0x00002221\n" /* command on one line; on four: 32 bits of
                                           * address and mode, 4 clocks of waiting, data */
        ".Lquad_read:     .word 0xA0002022\n" /* the same without a command, and the mode again */
        ".Lserial_frames: .word 0x001F0300\n"
        ".Lserial_read:   .word 0x03000218\n" /* command 03h of 8 bits, 24 bits of address */
        ".Lvectors:       .word 0x10000100\n"
        ".org 252\n"
        ".word 0x726B51B1\n" /* the CRC */
        ".text\n");
