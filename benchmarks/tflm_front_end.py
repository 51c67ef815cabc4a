"""TensorFlow Lite Micro's own audio front end, as C++ of `pymicro-features`, on emulated cores.

Takes the unpacked source of that package: pip download --no-deps --no-binary :all: pymicro-features
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from counting_core import LINKER_SCRIPT, CortexM
from elftools.elf.elffile import ELFFile
from front_ends import CORES, sound
from rich.console import Console
from rich.table import Table

from mcutrain.frontends import audio

PARTS = (
    *("fft", "fft_util", "filterbank", "filterbank_util", "frontend", "frontend_util"),
    *("kiss_fft_int16", "log_lut", "log_scale", "log_scale_util", "noise_reduction"),
    *("noise_reduction_util", "pcan_gain_control", "pcan_gain_control_util", "window"),
    "window_util",
)
NAMES = ("float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string")
"""C headers that C++ calls otherwise; a compiler for chips may have no C++ library."""
MAIN = """
#include "tensorflow/lite/experimental/microfrontend/lib/frontend.h"
#include "tensorflow/lite/experimental/microfrontend/lib/frontend_util.h"
extern "C" {
char heap[65536];
uint32_t used;
FrontendState state;
int16_t input[480];
uint16_t output[40];
void *_sbrk(int more);
void *_sbrk(int more) { void *at = heap + used; used += (uint32_t)more; return at; }
int reset(void);
int reset(void)
{
    FrontendConfig c;
    FrontendFillConfigWithDefaults(&c);
    c.window.size_ms = 30; c.window.step_size_ms = 20;
    c.filterbank.num_channels = 40;
    c.filterbank.lower_band_limit = 125; c.filterbank.upper_band_limit = 7500;
    c.noise_reduction.smoothing_bits = 10;
    c.noise_reduction.even_smoothing = 0.025; c.noise_reduction.odd_smoothing = 0.06;
    c.noise_reduction.min_signal_remaining = 0.05;
    c.pcan_gain_control.enable_pcan = 1; c.pcan_gain_control.strength = 0.95;
    c.pcan_gain_control.offset = 80; c.pcan_gain_control.gain_bits = 21;
    c.log_scale.enable_log = 1; c.log_scale.scale_shift = 6;
    return FrontendPopulateState(&c, &state, 16000);
}
uint32_t hop(uint32_t count);
uint32_t hop(uint32_t count)
{
    size_t taken;
    const FrontendOutput made = FrontendProcessSamples(&state, input, count, &taken);
    for (size_t i = 0; i < made.size; i++) { output[i] = made.values[i]; }
    return (uint32_t)made.size;
}
}
"""


def compiled(source: Path, cpu: str, folder: Path) -> tuple[CortexM, int]:
    """The front end in an emulated core, and its bytes of code and constants."""
    (folder / "main.cc").write_text(MAIN)
    (folder / "link.ld").write_text(LINKER_SCRIPT + "end = 0;\n")
    for name in NAMES:
        (folder / f"c{name}").write_text(f"#include <{name}.h>\n")
    library = source / "tensorflow/lite/experimental/microfrontend/lib"
    kiss = source / "kissfft"
    paths = [str(library / f"{name}.cc") for name in PARTS]
    flags = [
        f"-mcpu={cpu}",
        "-mthumb",
        "-O2",
        "-w",
        "-fno-exceptions",
        "-fno-rtti",
        "-ffunction-sections",
    ]
    flags += ["-I.", f"-I{source}", f"-I{kiss}", f"-I{kiss}/tools", "-DFIXED_POINT=16"]
    link = ["-nostartfiles", "-specs=nosys.specs", "-T", "link.ld", "-Wl,--entry=hop,--gc-sections"]
    link += ["-Wl,--undefined=reset,--undefined=output"]
    command = ["arm-none-eabi-gcc", *flags, *link, "main.cc", *paths, "-lm", "-o", "program.elf"]
    subprocess.run(command, cwd=folder, check=True)
    elf = folder / "program.elf"
    with elf.open("rb") as file:
        size = ELFFile(file).get_section_by_name(".text")["sh_size"]
    return CortexM(elf, CORES[cpu]), size


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the package's unpacked source")
    source = parser.parse_args().source.resolve()
    table = Table("core", "instructions a frame", "to begin", "flash", "heap and state")
    for cpu in CORES:
        with tempfile.TemporaryDirectory() as scratch:
            program, size = compiled(source, cpu, Path(scratch))
            assert program.call("reset") == 1
            begun, counts, x = program.count, [], sound()
            for frame, row in enumerate(audio.features(x, 320)):
                piece = x[:480] if frame == 0 else x[160 + 320 * frame : 480 + 320 * frame]
                program.write("input", piece.tobytes())
                assert program.call("hop", len(piece)) == 40
                counts.append(program.count)
                assert program.read("output", 80) == row.tobytes()
            heap = int.from_bytes(program.read("used", 4), "little")
            numbers = (float(np.mean(counts[1:])), begun, size, heap)
            table.add_row(cpu, *(f"{n:,.0f}" for n in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()
