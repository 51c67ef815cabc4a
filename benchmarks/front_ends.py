"""Instructions, flash, SRAM and stack of all front ends, on emulated cores; numbers are checked."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from counting_core import LINKER_SCRIPT, STACK_TOP, CortexM
from elftools.elf.elffile import ELFFile
from rich.console import Console
from rich.table import Table
from unicorn import arm_const

from mcutrain.frontends import audio, mfcc, motion, vision
from mcutrain.frontends.motion import Motion, SensorAxis
from mcutrain.frontends.normalization import ChannelNormalization, InputQuantization
from mcutrain.frontends.vision import Crop, Format, Method, Vision
from mcutrain.target import FIRMWARE

FOLDER, CHIP = FIRMWARE / "frontends", FIRMWARE / "chips" / "cortex_m"
CORES = {
    "cortex-m0plus": arm_const.UC_CPU_ARM_CORTEX_M0,
    "cortex-m4": arm_const.UC_CPU_ARM_CORTEX_M4,
}
PAINT, PAINTED_BYTES = b"\xa5", 4096
"""What a stack that was not used holds."""
HEAD = "#include <stdint.h>\nvoid reset(void);\nuint32_t hop(uint32_t);\n"
AUDIO = """
#include "mct_audio.h"
mct_audio state;
int16_t work[MCT_AUDIO_WORK], input[480];
uint16_t output[MCT_AUDIO_CHANNELS];
void reset(void) { mct_audio_reset(&state, 320); }
uint32_t hop(uint32_t count)
{
    int32_t is_frame;
    return mct_audio_push(&state, input, count, work, output, &is_frame);
}
"""
MFCC = """
#include "mct_mfcc.h"
mct_mfcc state;
int32_t work[MCT_MFCC_WORK];
int16_t input[480], output[MCT_MFCC_COEFFICIENTS];
void reset(void) { mct_mfcc_reset(&state); }
uint32_t hop(uint32_t count)
{
    int16_t peak;
    int32_t is_frame;
    return mct_mfcc_push(&state, input, count, work, output, &peak, &is_frame);
}
"""
MOTION = """
#include "mct_motion.h"
static const int16_t mults[] = {{16384, 16384, -16384}};
static const uint8_t shifts[] = {{14, 14, 14}};
static const uint16_t ends[] = {{4, 8, 16, 64}};
static const mct_motion_params params = {{mults, shifts, ends, 128, 32, 128, 3, 3, 8, 7, 4}};
mct_motion state;
int16_t kept[128 * 4], input[3], output[4 * 7];
int32_t work[128];
void reset(void) {{ mct_motion_reset(&state, &params); }}
uint32_t hop(uint32_t count)
{{
    {hop}
}}
"""
PUSH = "(void)count; return (uint32_t)mct_motion_push(&state, &params, kept, input);"
COMPUTE = "(void)count; mct_motion_features(&state, &params, kept, work, output); return 0;"
VISION = """
#include "mct_vision.h"
static const mct_vision_params params = {{{numbers}}};
mct_vision state;
uint32_t kept[{words}];
uint8_t input[{row_bytes}];
int8_t output[96 * 3 * 4];
void reset(void) {{ mct_vision_reset(&state, &params, kept); }}
uint32_t hop(uint32_t count)
{{
    mct_vision_push_row(&state, &params, kept, input);
    for (count = 0; mct_vision_take_row(&state, &params, kept, output + 288 * count); count++) {{
    }}
    return count;
}}
"""
NORMALIZE = """
#include "mct_normalize.h"
static const int16_t mults[] = {{{mults}}};
static const int32_t biases[] = {{{biases}}};
static const uint8_t shifts[] = {{{shifts}}};
static const mct_normalize_params params = {{mults, biases, shifts, 3}};
uint8_t input[288];
int8_t output[288];
void reset(void) {{}}
uint32_t hop(uint32_t count)
{{
    mct_normalize_u8(&params, input, output, count);
    return 0;
}}
"""
AXES = tuple(SensorAxis(m, 14) for m in (16384, 16384, -16384))
MOVES = Motion(AXES, 128, 32, 8, 3, True, True, True, (4, 8, 16, 64))
NORMALIZATION = ChannelNormalization.of(
    [123.7, 116.3, 103.5], [58.4, 57.1, 57.4], InputQuantization(0.0187, -14)
)


@dataclass(frozen=True)
class Case:
    """A front end, and what a call of hop() is. run: its calls; returns instructions of each."""

    name: str
    text: str
    sources: Sequence[str]
    run: Callable[[CortexM], list[int]]


def sound() -> npt.NDArray[np.int16]:
    """Twenty frames of noise."""
    return np.random.default_rng(0).normal(0, 3000, 480 + 19 * 320).astype(np.int16)


def run_audio(program: CortexM) -> list[int]:
    """Frames but the first."""
    return _frames(program, audio.features(sound(), 320))


def run_mfcc(program: CortexM) -> list[int]:
    """Frames but the first."""
    return _frames(program, mfcc.features(sound())[0])


def _frames(program: CortexM, expected: npt.NDArray[np.generic]) -> list[int]:
    x, found = sound(), []
    for frame, row in enumerate(expected):
        piece = x[:480] if frame == 0 else x[160 + 320 * frame : 480 + 320 * frame]
        program.write("input", piece.tobytes())
        program.call("hop", len(piece))
        found.append(program.count)
        assert program.read("output", row.nbytes) == row.tobytes()
    return found[1:]


def run_rows(program: CortexM) -> list[int]:
    """Rows of a window, after the first."""
    found = []
    for row in _moves():
        program.write("input", row.tobytes())
        program.call("hop")
        found.append(program.count)
    windows = motion.MotionWindows(MOVES).push(_moves())
    assert program.read("kept", 1024) == windows[0].tobytes()
    return found[1:]


def run_window(program: CortexM) -> list[int]:
    """Features of a window, which is written where C would keep it."""
    window = motion.MotionWindows(MOVES).push(_moves())
    program.write("kept", window.tobytes())
    program.call("hop")
    expected = motion.features(MOVES, window)
    assert program.read("output", expected.nbytes) == expected.tobytes()
    return [program.count]


def _moves() -> npt.NDArray[np.int16]:
    return np.random.default_rng(0).normal(500, 2000, (128, 3)).astype(np.int16)


def run_image(how: Vision) -> Callable[[CortexM], list[int]]:
    """All rows of an image."""

    def run(program: CortexM) -> list[int]:
        shape = how.height, how.row_bytes
        image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        counts, made = [], b""
        for row in image:
            program.write("input", row.tobytes())
            rows = program.call("hop")
            counts.append(program.count)
            made += program.read("output", 288 * rows)
        assert made == vision.resized(how, image).tobytes()
        return counts

    return run


def run_normalize(program: CortexM) -> list[int]:
    """A row of 96 pixels."""
    x = np.random.default_rng(0).integers(0, 256, (96, 3)).astype(np.uint8)
    program.write("input", x.tobytes())
    program.call("hop", 96)
    assert program.read("output", 288) == NORMALIZATION.normalized(x).tobytes()
    return [program.count]


def vision_case(form: Format, method: Method) -> Case:
    """A QVGA image's middle for a model of 96 x 96 x 3."""
    halves = 2 if form == Format.BAYER_RGGB else 1
    crop = Crop(40 // halves, 0, 240 // halves, 240 // halves)
    how = Vision(form, 320, 240, crop, 96, 96, 3, method)
    numbers = (320, crop.left, 0, crop.width, crop.height, 96, 96, 3, int(form), int(method))
    values = {"numbers": ", ".join(map(str, numbers)), "words": how.memory_bytes // 4}
    text = VISION.format(**values, row_bytes=how.row_bytes)
    name = f"row of {form.name}, {method.name.lower()}"
    return Case(name, text, ["mct_vision.c"], run_image(how))


def cases() -> list[Case]:
    """All rows of the table."""
    of_motion, numbers = ["mct_motion.c", "mct_fourier.c"], ("mults", "biases", "shifts")
    joined = {name: ", ".join(map(str, getattr(NORMALIZATION, name))) for name in numbers}
    return [
        Case("audio front end of TFLM, frame", AUDIO, ["mct_audio.c"], run_audio),
        Case("MFCC, frame", MFCC, ["mct_mfcc.c", "mct_fourier.c"], run_mfcc),
        Case("motion, row", MOTION.format(hop=PUSH), of_motion, run_rows),
        Case("motion, window", MOTION.format(hop=COMPUTE), of_motion, run_window),
        vision_case(Format.RGB565_BIG, Method.AREA),
        vision_case(Format.RGB565_BIG, Method.BILINEAR),
        vision_case(Format.YUYV, Method.AREA),
        vision_case(Format.YUYV, Method.BILINEAR),
        vision_case(Format.BAYER_RGGB, Method.AREA),
        vision_case(Format.GREY, Method.AREA),
        Case(
            "normalization, 96 x 3", NORMALIZE.format(**joined), ["mct_normalize.c"], run_normalize
        ),
    ]


def compiled(case: Case, cpu: str, folder: Path) -> tuple[CortexM, dict[str, int]]:
    """The front end in an emulated core; bytes of code and constants, and of its variables."""
    (folder / "main.c").write_text(HEAD + case.text)
    (folder / "link.ld").write_text(LINKER_SCRIPT)
    flags = [f"-mcpu={cpu}", "-mthumb", "-O2", f"-I{FOLDER}", f"-I{CHIP / 'include'}"]
    link = ["-nostdlib", "-T", "link.ld", "-Wl,--entry=hop"]
    paths = [str(FOLDER / name) for name in case.sources]
    sources = ["main.c", *paths, str(CHIP / "mct_libc.c"), "-lgcc"]
    command = ["arm-none-eabi-gcc", *flags, *link, *sources, "-o", "program.elf"]
    subprocess.run(command, cwd=folder, check=True)
    elf = folder / "program.elf"
    with elf.open("rb") as file:
        program = ELFFile(file)
        sizes = {"flash": program.get_section_by_name(".text")["sh_size"]}
        for symbol in program.get_section_by_name(".symtab").iter_symbols():
            if symbol.name in ("state", "kept", "work"):
                sizes[symbol.name] = symbol["st_size"]
    return CortexM(elf, CORES[cpu]), sizes


def main() -> None:
    """Print the table."""
    table = Table("what", "core", "instructions", "of which most", "flash", "kept", "work", "stack")
    for case in cases():
        for cpu in CORES:
            with tempfile.TemporaryDirectory() as scratch:
                program, sizes = compiled(case, cpu, Path(scratch))
                program.call("reset")
                program.engine.mem_write(STACK_TOP - PAINTED_BYTES, PAINT * PAINTED_BYTES)
                counts = case.run(program)
                stack = bytes(program.engine.mem_read(STACK_TOP - PAINTED_BYTES, PAINTED_BYTES))
            kept = sizes.get("state", 0) + sizes.get("kept", 0)
            numbers = (float(np.mean(counts)), max(counts), sizes["flash"], kept)
            rest = (sizes.get("work", 0), len(stack.lstrip(PAINT)))
            table.add_row(case.name, cpu, *(f"{n:,.0f}" for n in (*numbers, *rest)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
