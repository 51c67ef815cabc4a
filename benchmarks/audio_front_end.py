"""Instructions, flash, SRAM and stack of a frame of the audio front end, on emulated cores."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import unicorn
from elftools.elf.elffile import ELFFile
from rich.console import Console
from rich.table import Table
from unicorn import arm_const

from mcutrain.frontends import audio
from mcutrain.target import FIRMWARE

FOLDER, CHIP = FIRMWARE / "frontends", FIRMWARE / "chips" / "cortex_m"
REGISTERS = (arm_const.UC_ARM_REG_R0, arm_const.UC_ARM_REG_R1)
CODE, RAM, STACK_TOP, RETURN = 0x08000000, 0x20000000, 0x20010000, 0x08100000
MAIN = """
#include "mct_audio.h"
mct_audio heard;
int16_t work[MCT_AUDIO_WORK], sound[640];
uint16_t features[MCT_AUDIO_CHANNELS];
int32_t is_frame;
uint32_t push(uint32_t first, uint32_t count);
void reset(void);
void reset(void) { mct_audio_reset(&heard, 160); }
uint32_t push(uint32_t first, uint32_t count)
{
    return mct_audio_push(&heard, sound + first, count, work, features, &is_frame);
}
"""
SCRIPT = """
MEMORY {{ code (rx): ORIGIN = {code}, LENGTH = 1M
          ram (rw): ORIGIN = {ram}, LENGTH = 64K }}
SECTIONS {{ .text : {{ *(.text*) *(.rodata*) }} > code
            .bss : {{ *(.data*) *(.bss*) *(COMMON) }} > ram
            /DISCARD/ : {{ *(.ARM.*) }} }}
"""


@dataclass(frozen=True)
class Core:
    """A Cortex-M that gcc compiles for, and Unicorn's number of a core that executes it."""

    cpu: str
    model: int


CORES = (
    Core("cortex-m0plus", arm_const.UC_CPU_ARM_CORTEX_M0),
    Core("cortex-m3", arm_const.UC_CPU_ARM_CORTEX_M3),
    Core("cortex-m4", arm_const.UC_CPU_ARM_CORTEX_M4),
)


class Program:
    """The front end, compiled for a core, in an emulator that counts its instructions."""

    def __init__(self, core: Core, folder: Path) -> None:
        elf = _compiled(core, folder)
        with elf.open("rb") as file:
            read = ELFFile(file)
            symbols = read.get_section_by_name(".symtab").iter_symbols()
            self.symbols = {s.name: (s["st_value"], s["st_size"]) for s in symbols}
            parts = [(s["p_paddr"], s.data()) for s in read.iter_segments() if s["p_filesz"]]
        self.engine = unicorn.Uc(
            unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS
        )
        self.engine.ctl_set_cpu_model(core.model)
        self.engine.mem_map(CODE, 2 << 20)
        self.engine.mem_map(RAM, 64 << 10)
        for place, content in parts:
            self.engine.mem_write(place, content)
        self.count, self.lowest, self.flash_bytes = 0, STACK_TOP, len(parts[0][1])
        self.engine.hook_add(unicorn.UC_HOOK_CODE, self._step)

    def call(self, name: str, *arguments: int) -> int:
        """Call a function with up to two numbers; returns its instructions."""
        self.count = 0
        for register, value in zip(
            (arm_const.UC_ARM_REG_R0, arm_const.UC_ARM_REG_R1), arguments, strict=False
        ):
            self.engine.reg_write(register, value)
        self.engine.reg_write(arm_const.UC_ARM_REG_SP, STACK_TOP)
        self.engine.reg_write(arm_const.UC_ARM_REG_LR, RETURN | 1)
        self.engine.emu_start(self.symbols[name][0] | 1, RETURN)
        return self.count

    def read(self, name: str) -> bytes:
        """Read a variable."""
        return bytes(self.engine.mem_read(*self.symbols[name]))

    def _step(self, engine: unicorn.Uc, address: int, size: int, data: object) -> None:
        self.count += 1
        self.lowest = min(self.lowest, engine.reg_read(arm_const.UC_ARM_REG_SP))


def _compiled(core: Core, folder: Path) -> Path:
    (folder / "main.c").write_text(MAIN)
    (folder / "link.ld").write_text(SCRIPT.format(code=hex(CODE), ram=hex(RAM)))
    flags = [f"-mcpu={core.cpu}", "-mthumb", "-O2", f"-I{FOLDER}", f"-I{CHIP / 'include'}"]
    link = ["-nostdlib", "-T", "link.ld", "-Wl,--entry=push"]
    sources = ["main.c", str(FOLDER / "mct_audio.c"), str(CHIP / "mct_libc.c"), "-lgcc"]
    command = ["arm-none-eabi-gcc", *flags, *link, *sources, "-o", "program.elf"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program.elf"


def frames(program: Program, count: int) -> list[int]:
    """Instructions of each frame of noise; its features are compared with numpy's."""
    x = np.random.default_rng(0).normal(0, 3000, 480 + 160 * (count - 1)).astype(np.int16)
    front, found, place = audio.AudioFeatures(160), [], 0
    program.call("reset")
    while place < len(x):
        size = 480 if place == 0 else 160
        piece = x[place : place + size]
        program.engine.mem_write(program.symbols["sound"][0], piece.tobytes())
        found.append(program.call("push", 0, size))
        expected = front.push(piece)[-1]
        assert np.array_equal(np.frombuffer(program.read("features"), "<u2"), expected)
        place += size
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20)
    arguments = parser.parse_args()
    table = Table("core", "instructions a frame", "flash", "stack")
    for core in CORES:
        with tempfile.TemporaryDirectory() as scratch:
            program = Program(core, Path(scratch))
            mean = float(np.mean(frames(program, arguments.frames)[1:]))
            stack, size = STACK_TOP - program.lowest, program.flash_bytes
            table.add_row(core.cpu, f"{mean:,.0f}", f"{size:,}", f"{stack:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
