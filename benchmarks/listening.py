"""Instructions of a hop of a library with a front end, and its flash and stack, on emulated cores.

The library is generated; samples are pushed, and what `mct_window_ready` takes is counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from audio_front_end import CHIP, CORES, PAINT, PAINTED_BYTES
from counting_core import LINKER_SCRIPT, STACK_TOP, CortexM
from elftools.elf.elffile import ELFFile
from rich.console import Console
from rich.table import Table

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.features import listening_bytes
from mcutrain.ir.graph import Graph

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.frontends.networks import listener, network_of

FRAMES = 49
COUNTERS_BYTES = 32
"""Of what is heard, those that are no part of `listening`."""
MAIN = """
#include "mct_model.h"
int16_t sound[4096];
void reset(void);
void push(uint32_t count);
uint32_t ready(void);
uint32_t take(void);
void reset(void) { mct_reset(1); }
void push(uint32_t count) { mct_push(sound, count); }
uint32_t ready(void) { return mct_window_ready(); }
uint32_t take(void) { return mct_window_take(); }
"""
HEARD = """
int32_t heard(void);
uint32_t loudest(void);
int32_t heard(void) { return mct_window_heard(); }
uint32_t loudest(void) { return mct_window_take_at(mct_window_loudest()); }
"""
PLAIN = """
#include "mct_model.h"
void reset(void);
int32_t feed(void);
void reset(void) { mct_reset(1); }
int32_t feed(void) { return mct_feed(0, (const int8_t *)reset, 40); }
"""


def made(frontend: str) -> Graph:
    """A network that takes its frames; without a front end if it is empty, of audio's."""
    return network_of(frontend, FRAMES) if frontend else listener(FRAMES, frontend="")


def compiled(cpu: str, folder: Path, frontend: str, history: int) -> tuple[CortexM, int]:
    """The library in an emulated core, and the bytes that a front end adds to its flash."""
    sizes = []
    for front in ("", frontend):
        own, graph = folder / (front[:4] or "plain"), made(frontend)
        graph = graph if front else replace(graph, input_order=None)
        step = prepare(graph, "head", stream="off")
        step.library(Interface(history=history if front else 0)).write(own)
        main = MAIN + (HEARD if history else "")
        (own / "main.c").write_text(main if front else PLAIN)
        (own / "link.ld").write_text(LINKER_SCRIPT)
        flags = [f"-mcpu={cpu}", "-mthumb", "-O2", "-Isrc", f"-I{CHIP / 'include'}"]
        flags += ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
        more = ("heard", "loudest") if history else ()
        names = ("push", "ready", "take", *more) if front else ("feed",)
        keep = [f"-Wl,--undefined={name}" for name in names]
        link = ["-nostdlib", "-T", "link.ld", "-Wl,--entry=reset", *keep]
        sources = ["main.c", *sorted(map(str, (own / "src").glob("*.c")))]
        command = ["arm-none-eabi-gcc", *flags, *link, *sources, str(CHIP / "mct_libc.c"), "-lgcc"]
        subprocess.run([*command, "-o", "program.elf"], cwd=own, check=True)
        with (own / "program.elf").open("rb") as file:
            sizes.append(ELFFile(file).get_section_by_name(".text")["sh_size"])
    return CortexM(own / "program.elf", CORES[cpu]), sizes[1] - sizes[0]


def hops(program: CortexM, count: int, frontend: str, history: int) -> tuple[float, float, float]:
    """Mean instructions of a hop of noise: to push it, to compute its frame; to take a window."""
    graph = made(frontend)
    assert graph.input_order is not None
    front = graph.input_order.frontend
    assert front is not None
    hop, first = front.hop, front.least_samples
    shape = (first + hop * (count - 1), *front.input_shape[1:])
    x = np.random.default_rng(0).normal(0, 3000, shape).astype(np.int16)
    kept = history or front.output_shape[0]
    rows = front.stream().push(x)[-kept:]
    if front.c.window is None:
        x_type = next(iter(graph.types(graph.inputs)))
        rows = front.codes(rows, x_type.scale, x_type.zero_point)
    program.call("reset")
    pushed, ready, place = [], [], 0
    for frame in range(count):
        end, counts = first + hop * frame, np.zeros(2)
        for begin in range(place, end, front.c.queue):
            piece = x[begin : min(begin + front.c.queue, end)]
            program.write("sound", piece.tobytes())
            for i, arguments in enumerate((("push", len(piece)), ("ready",))):
                program.call(*arguments)
                counts[i] += program.count
        if front.takes_images and not history:
            program.call("take")
        pushed.append(counts[0])
        ready.append(counts[1])
        place = end
    if front.takes_images and not history:  # what was fed lies in the arena, and no row is kept
        return float(np.mean(pushed[1:])), float(np.mean(ready[1:])), float(program.count)
    program.call("take")
    found = program.read("listening", listening_bytes(front, history) - COUNTERS_BYTES)
    moved = count % kept if count >= kept else 0
    assert np.roll(rows, moved, axis=0).tobytes() in found, "the rows are numpy's"
    return float(np.mean(pushed[1:])), float(np.mean(ready[1:])), float(program.count)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=52)
    parser.add_argument("--frontend", default="audio:step_ms=20", help="as of mcutrain")
    parser.add_argument("--history", type=int, default=0, help="frames, with a trigger")
    arguments = parser.parse_args()
    table = Table("core", "push", "frame", "take", "flash", "stack")
    for cpu in CORES:
        with tempfile.TemporaryDirectory() as scratch:
            program, size = compiled(cpu, Path(scratch), arguments.frontend, arguments.history)
            program.engine.mem_write(STACK_TOP - PAINTED_BYTES, PAINT * PAINTED_BYTES)
            push, frame, take = hops(
                program, arguments.frames, arguments.frontend, arguments.history
            )
            stack = bytes(program.engine.mem_read(STACK_TOP - PAINTED_BYTES, PAINTED_BYTES))
            used = len(stack.lstrip(PAINT))
            table.add_row(cpu, *(f"{n:,.0f}" for n in (push, frame, take, size, used)))
    Console().print(table)


if __name__ == "__main__":
    main()
