"""Instructions, flash, SRAM and stack of a frame of the audio front end, on emulated cores."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from counting_core import LINKER_SCRIPT, STACK_TOP, CortexM
from elftools.elf.elffile import ELFFile
from rich.console import Console
from rich.table import Table
from unicorn import arm_const

from mcutrain.frontends import audio
from mcutrain.frontends.tables import CHANNELS
from mcutrain.target import FIRMWARE

FOLDER, CHIP = FIRMWARE / "frontends", FIRMWARE / "chips" / "cortex_m"
CORES = {
    "cortex-m0plus": arm_const.UC_CPU_ARM_CORTEX_M0,
    "cortex-m3": arm_const.UC_CPU_ARM_CORTEX_M3,
    "cortex-m4": arm_const.UC_CPU_ARM_CORTEX_M4,
}
PAINT, PAINTED_BYTES = b"\xa5", 4096
"""What a stack that was not used holds."""
MAIN = """
#include "mct_audio.h"
mct_audio heard;
int16_t work[MCT_AUDIO_WORK], sound[640];
uint16_t features[MCT_AUDIO_CHANNELS];
int32_t is_frame;
uint32_t push(uint32_t count);
void reset(void);
void reset(void) { mct_audio_reset(&heard, 160); }
uint32_t push(uint32_t count)
{
    return mct_audio_push(&heard, sound, count, work, features, &is_frame);
}
"""


def compiled(cpu: str, folder: Path) -> tuple[CortexM, int]:
    """The front end in an emulated core, and its bytes of code and constants."""
    (folder / "main.c").write_text(MAIN)
    (folder / "link.ld").write_text(LINKER_SCRIPT)
    flags = [f"-mcpu={cpu}", "-mthumb", "-O2", f"-I{FOLDER}", f"-I{CHIP / 'include'}"]
    link = ["-nostdlib", "-T", "link.ld", "-Wl,--entry=push"]
    sources = ["main.c", str(FOLDER / "mct_audio.c"), str(CHIP / "mct_libc.c"), "-lgcc"]
    command = ["arm-none-eabi-gcc", *flags, *link, *sources, "-o", "program.elf"]
    subprocess.run(command, cwd=folder, check=True)
    elf = folder / "program.elf"
    with elf.open("rb") as file:
        size = ELFFile(file).get_section_by_name(".text")["sh_size"]
    return CortexM(elf, CORES[cpu]), size


def frames(program: CortexM, count: int) -> list[int]:
    """Instructions of each frame of noise; its features are compared with numpy's."""
    x = np.random.default_rng(0).normal(0, 3000, 480 + 160 * (count - 1)).astype(np.int16)
    front, found, place = audio.AudioFeatures(160), [], 0
    program.call("reset")
    while place < len(x):
        size = 480 if place == 0 else 160
        piece = x[place : place + size]
        program.write("sound", piece.tobytes())
        program.call("push", size)
        found.append(program.count)
        features = np.frombuffer(program.read("features", 2 * CHANNELS), "<u2")
        assert np.array_equal(features, front.push(piece)[-1])
        place += size
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20)
    arguments = parser.parse_args()
    table = Table("core", "instructions a frame", "flash", "stack")
    for cpu in CORES:
        with tempfile.TemporaryDirectory() as scratch:
            program, size = compiled(cpu, Path(scratch))
            program.engine.mem_write(STACK_TOP - PAINTED_BYTES, PAINT * PAINTED_BYTES)
            mean = float(np.mean(frames(program, arguments.frames)[1:]))
            stack = bytes(program.engine.mem_read(STACK_TOP - PAINTED_BYTES, PAINTED_BYTES))
            used = len(stack.lstrip(PAINT))
            table.add_row(cpu, f"{mean:,.0f}", f"{size:,}", f"{used:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
