"""Small programs in assembly for virtual boards."""

import shutil
import subprocess
from pathlib import Path

from mcutrain_host.manifest import Emulation, Uart
from mcutrain_host.toolchain import ZIG
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.rp2_rom import crc32_mpeg2

from tests.host.boards import described

UART = Uart(name="USART2", baud=115200, pins="PA2 sends, PA3 receives")
F446 = described("f446", emulate=Emulation(unicorn="stm32f446"), uart=UART)
F746 = described("f746", "cortex-m7", emulate=Emulation(unicorn="stm32f746"), uart=UART)
PICO = described(
    "pico",
    "cortex-m0plus",
    emulate=Emulation(unicorn="rp2040"),
    uart=Uart(name="UART0", baud=115200, pins="GP0 sends, GP1 receives"),
)
MPS2 = described(
    "mps2",
    emulate=Emulation(unicorn="mps2", qemu=("-M", "mps2-an386"), qemu_serial=0),
    uart=Uart(name="UART0", baud=115200),
)

HEAD = """
    .syntax unified
    .thumb
    .text
    .word 0x20010000
    .word start
    .macro function name
    .global \\name
    .type \\name, %function
    .thumb_func
\\name:
    .endm
"""

MPS2_ECHO = """
    function start
    ldr r0, =0x40004000
    movs r1, #217
    str r1, [r0, #0x10]
    movs r1, #3
    str r1, [r0, #8]
again:
    ldr r1, [r0, #4]
    tst r1, #2
    beq again
    ldr r1, [r0]
    adds r1, #1
    str r1, [r0]
    b again
    .size start, . - start
"""

F446_ECHO = """
    function start
    ldr r0, =0x40023800     @ RCC: clocks of GPIOA and USART2
    movs r1, #1
    str r1, [r0, #0x30]
    ldr r1, =0x20000
    str r1, [r0, #0x40]
    ldr r0, =0x40020000     @ GPIOA: function 7 on pins 2 and 3
    ldr r1, =0x7700
    str r1, [r0, #0x20]
    ldr r1, =0xA80000A0
    str r1, [r0]
    ldr r0, =0x40004400     @ USART2 at 115200 baud from 16 MHz
    movs r1, #139
    str r1, [r0, #8]
    ldr r1, =0x200C
    str r1, [r0, #0xC]
again:
    ldr r1, [r0]
    tst r1, #0x20
    beq again
    ldr r1, [r0, #4]
    adds r1, #1
    str r1, [r0, #4]
    b again
    .size start, . - start
"""


def assemble(folder: Path, text: str, cpu: str = "cortex-m4", origin: int = 0x08000000) -> Path:
    """An ELF file with the vector table at `origin`, made by gcc, else by zig."""
    source, elf = folder / "program.s", folder / "program.elf"
    source.write_text(HEAD + text + "\n    .pool\n")
    gcc = shutil.which("arm-none-eabi-gcc")
    zig = [*ZIG, "-target", "thumb-freestanding-eabi"]
    zig_cpu = f"-mcpu={cpu.replace('-', '_')}"
    command = [gcc, f"-mcpu={cpu}", "-mthumb"] if gcc else [*zig, zig_cpu]
    script = folder / "program.ld"
    script.write_text(f"SECTIONS {{ . = {origin:#x}; .text : {{ *(.text*) }} }}\n")
    flags = ["-nostdlib", "-Wl,-e,start", "-Wl,-n", f"-Wl,-T,{script}"]
    subprocess.run([*command, *flags, "-o", elf, source], check=True, capture_output=True)
    return elf


def program(folder: Path, text: str, cpu: str = "cortex-m4", origin: int = 0x08000000) -> Image:
    return Image.from_elf(assemble(folder, text, cpu, origin))


def pico_program(folder: Path, text: str, crc_error: int = 0) -> Image:
    """Behind a second stage that sets up the flash and starts what lies at 0x10000100."""
    main = program(folder, text, "cortex-m0plus", 0x10000100)
    stage = """
    function boot2
    ldr r3, =0x18000000
    movs r0, #0
    str r0, [r3, #8]
    movs r1, #4
    str r1, [r3, #0x14]
    ldr r1, =0x001F0300
    str r1, [r3]
    ldr r1, =0x03000218
    movs r2, #0xF4
    str r1, [r3, r2]
    movs r0, #1
    str r0, [r3, #8]
    ldr r0, =0x10000100
    ldm r0, {r0, r1}
    msr msp, r0
    bx r1
    """
    inner = folder / "boot2"
    inner.mkdir()
    code = program(inner, "    function start\n" + stage, "cortex-m0plus", 0).segments[0][1]
    code = code[-(len(code) - 8) :].ljust(252, b"\0")  # without HEAD's vector table
    crc = crc32_mpeg2(code) ^ crc_error
    segments = ((0x10000000, code + crc.to_bytes(4, "little")), *main.segments)
    return Image(segments, main.functions, main.labels, main.model_functions)
