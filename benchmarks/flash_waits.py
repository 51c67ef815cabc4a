"""What a training step waits for flash, by simulations of the caches between it and the core.

    .venv/bin/python benchmarks/flash_waits.py --model mcunet-5fps.int8.tflite \
        --scheme mcunet-5fps-49kb --classes 10

The step's firmware is run, and all that it reads of flash goes through caches as the chips have
them; a line that is not there costs cycles. Nothing was measured on hardware. The third step is
taken, after an inference.

rpi-pico: the virtual board in Unicorn. A cache of 16 KB with two ways and lines of 8 bytes (RP2040
datasheet, 2.6.3), in front of flash that is read in one of two ways (mct_boot2.c):

    quad    command EBh that goes on without its first byte, four bits, at half of the clock:
            8 + 4 + 16 clocks of address, dummies and data
    serial  command 03h, one bit, at a quarter of the core's clock: 8 + 24 + 64 clocks

That a core goes on while it waits for data, and that a branch waits longer than straight code, is
left out. Cycles without waits are instructions times CYCLES, which is by Arm's tables
(benchmarks/cycles_per_instruction.py).

netduinoplus2, mps2-an500: their firmware in QEMU, with a plugin, for chips whose kernels are the
same; chip_flash.py says what each chip has. Unicorn does not go on from the jumps of these kernels
while loads are watched.

rv32imc: a library of `generate` as gcc compiles it for RISC-V, in qemu-riscv32 with the plugin, for
an ESP32-C3; the step alone.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chip_flash import CHIPS, RISCV, Waits, riscv_waits, waits
from device_instructions import settled
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.toolchain import shared_library
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table
from unicorn import UC_HOOK_BLOCK, UC_HOOK_MEM_READ
from unicorn.unicorn_py3.unicorn import uclib

from mcutrain import demo, prepare
from mcutrain.pipeline import TrainingStep, load
from mcutrain.target import Target, load_target

BOARD = "rpi-pico"
CYCLES = 1.4
LINE_BYTES = 8
WAYS = {"quad": (8 + 4 + 16) * 2, "serial": (8 + 24 + 64) * 4}
"""Cycles of the core to read a line of the cache."""
HEAD = ("M instructions", "lines of code", "of data", "MB read", "KB once", "M cycles", "each", "s")
HEAD_OF_CHIPS = (
    *("M instructions", "M cycles waiting for code", "for data", "MB read", "% of all"),
    *("M cycles", "each", "s"),
)


class Face(ctypes.Structure):
    """`flash_face` of flash_cache.c."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("begin", "end")),
        *((name, ctypes.c_uint64) for name in ("lines", "code_misses", "data_misses")),
    )


def main() -> None:
    """A table for each emulator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--classes", type=int)
    runs = (BOARD, *CHIPS, RISCV)
    parser.add_argument("--runs", nargs="+", choices=runs, default=runs, help="whose firmware")
    options = parser.parse_args()
    step = prepare(load(options.model), options.scheme, classes=options.classes)
    title = f"{step.graph.name}, {step.scheme.name}"
    print(
        f"{title}: nodes of a step read {weights_read(step):,} bytes of frozen weights, once each"
    )
    if BOARD in options.runs:
        table = Table("flash", "", *HEAD, title=f"{title}, {BOARD}")
        for row in rows(step, load_target(BOARD)):
            table.add_row(*row)
        Console(width=150).print(table)
    for runs_on in [name for name in options.runs if name != BOARD]:
        table = Table("board", "", *HEAD_OF_CHIPS, title=f"{title}, code of {runs_on}")
        pairs = riscv_waits(step) if runs_on == RISCV else waits(step, runs_on)
        for name, found in sorted(pairs, key=lambda pair: pair[0]):
            table.add_row(found.chip.board, name, *row_of_chip(found))
        Console(width=150).print(table)


def weights_read(step: TrainingStep) -> int:
    """Bytes of constants that the nodes of a step read, if each node reads its own once."""
    graph = step.plan.training.graph
    constants = set(graph.constants())
    return sum(
        graph.tensors[name].type.size_bytes
        for node in graph.nodes
        if not node.op.is_view
        for name in node.inputs
        if name in constants
    )


def row_of_chip(found: Waits) -> list[str]:
    """Numbers of one."""
    clock_hz = load_target(found.chip.board).clock_hz
    assert clock_hz is not None
    return [
        f"{found.instructions / 1e6:.1f}",
        f"{found.code / 1e6:.2f}",
        f"{found.data / 1e6:.2f}",
        f"{found.bytes_read / 1e6:.2f}",
        f"{100 * found.share:.1f}",
        f"{found.cycles / 1e6:.1f}",
        f"{found.cycles / found.instructions:.2f}",
        f"{found.cycles / clock_hz:.3f}",
    ]


def rows(step: TrainingStep, target: Target) -> Iterator[list[str]]:
    """Measure inference and step; yield a row for each."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(target).write(folder)
        build(folder)
        machine = load_machine(folder, LoopbackLink())
    face, library = cached(machine, target)
    for name, action in settled(Device(DirectLink(machine))):
        library.mct_flash_clear()
        before = machine.instructions
        action()
        for way, line_cycles in WAYS.items():
            numbers = row(machine.instructions - before, face, target, line_cycles)
            yield [way, name, *numbers]


def row(instructions: int, face: Face, target: Target, line_cycles: int) -> list[str]:
    """Numbers of one."""
    misses = face.code_misses + face.data_misses
    cycles = instructions * CYCLES + misses * line_cycles
    return [
        f"{instructions / 1e6:.1f}",
        f"{face.code_misses:,}",
        f"{face.data_misses:,}",
        f"{misses * LINE_BYTES / 1e6:.2f}",
        f"{face.lines * LINE_BYTES / 1e3:.0f}",
        f"{cycles / 1e6:.0f}",
        f"{cycles / instructions:.2f}",
        f"{cycles / target.clock_hz:.3f}",
    ]


def cached(machine, target: Target):
    """Have all that the core reads of its flash go through the cache."""
    library = ctypes.CDLL(str(shared_library(Path(__file__).with_name("flash_cache.c"))))
    library.mct_flash.restype = ctypes.POINTER(Face)
    face = library.mct_flash().contents
    face.begin, face.end = target.flash.origin, target.flash.origin + (1 << 24)
    for kind, function in (
        (UC_HOOK_BLOCK, library.mct_flash_block),
        (UC_HOOK_MEM_READ, library.mct_flash_data),
    ):
        everywhere = (ctypes.c_uint64(1), ctypes.c_uint64(0))
        handle = ctypes.byref(ctypes.c_size_t())
        pointer = ctypes.cast(function, ctypes.c_void_p)
        uclib.uc_hook_add(machine.cpu.engine._uch, handle, kind, pointer, None, *everywhere)
    return face, library


if __name__ == "__main__":
    main()
