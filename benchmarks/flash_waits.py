"""What a training step waits for flash, by a simulation of the caches in front of it.

    .venv/bin/python benchmarks/flash_waits.py --model mcunet-5fps.int8.tflite \
        --scheme mcunet-5fps-49kb --classes 10

Every line of flash that a virtual board's third step reads goes through caches as the chip has
them; one that is not there costs so many cycles. Cycles without waits are instructions times
CYCLES, which are by Arm's tables (benchmarks/cycles_per_instruction.py), and for the M7 those of
the M4 by CoreMark/MHz, 5.01 and 3.42. Nothing was measured on hardware: that a core goes on while
it waits for data, and that a branch waits longer than straight code, is left out.

    rpi-pico, serial  command 03h, one bit, at a quarter of the core's clock: 8 + 24 + 64 clocks for
                      the 8 bytes of a line; 16 KB, two ways (RP2040 datasheet, 2.6.3)
    rpi-pico, quad    command EBh that goes on without its first byte, four bits, at half of the
                      clock: 8 + 4 + 16 clocks of address, dummies and data

Boards with a Cortex-M4 or M7 are left out: their kernels jump to addresses that they load, and
Unicorn does not go on from there while loads are watched.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device_instructions import RATE, SETTLING_STEPS
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.toolchain import shared_library
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table
from unicorn import UC_HOOK_BLOCK, UC_HOOK_MEM_READ
from unicorn.unicorn_py3.unicorn import uclib

from mcutrain import demo
from mcutrain.pipeline import TrainingStep, load, prepare
from mcutrain.target import Target, load_target


@dataclass(frozen=True)
class Flash:
    """Caches and what a line costs. code, data: lines and ways; data None shares that of code."""

    line_bytes: int
    code: tuple[int, int]
    data: tuple[int, int] | None
    cycles: int


CYCLES = {"cortex-m0plus": 1.4, "cortex-m4": 1.5, "cortex-m7": 1.03}
BOARDS = {
    "rpi-pico": {
        "serial": Flash(8, (2048, 2), None, (8 + 24 + 64) * 4),
        "quad": Flash(8, (2048, 2), None, (8 + 4 + 16) * 2),
    },
}


class Shape(ctypes.Structure):
    """`cache_shape` of flash_cache.c."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("line_bits", "ways", "sets", "place")),
        ("misses", ctypes.c_uint64),
    )


class Face(ctypes.Structure):
    """`flash_face` of flash_cache.c."""

    _fields_ = (
        ("begin", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("lines", ctypes.c_uint64),
        ("caches", Shape * 2),
    )


def main() -> None:
    """A row for inference and step of each board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--boards", nargs="+", default=list(BOARDS), choices=list(BOARDS))
    options = parser.parse_args()
    step = prepare(load(options.model), options.scheme, classes=options.classes)
    console = Console(width=150)
    head = ("board", "", "M instructions", "lines of code", "of data", "MB read", "KB once",
            "M cycles", "each", "s")  # fmt: skip
    table = Table(*head, title=f"{step.graph.name}, {step.scheme.name}")
    for board in options.boards:
        for name, flash in BOARDS[board].items():
            for row in rows(step, load_target(board), flash):
                table.add_row(f"{board} {name}", *row)
    console.print(table)


def rows(step: TrainingStep, target: Target, flash: Flash) -> list[list[str]]:
    """Of inference and step."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(target).write(folder)
        build(folder)
        machine = load_machine(folder, LoopbackLink())
    face, library = cached(machine, target, flash)
    device, random = Device(DirectLink(machine)), np.random.default_rng(0)
    size = device.identify().input_bytes

    def send() -> None:
        device.send_sample(random.integers(-128, 128, size).astype(np.int8).tobytes())

    for position in range(SETTLING_STEPS):
        send()
        device.train(position, position, RATE)
    found = []
    for name, action in (
        ("inference", device.infer),
        ("step", lambda: device.train(0, SETTLING_STEPS, RATE)),
    ):
        library.mct_flash_clear()
        before = machine.instructions
        send()  # what computes row by row begins with the sample's rows
        action()
        found.append([name, *_row(machine.instructions - before, face, target, flash)])
    return found


def _row(instructions: int, face: Face, target: Target, flash: Flash) -> list[str]:
    code, data = (face.caches[i].misses for i in range(2))
    cycles = instructions * CYCLES[target.core] + (code + data) * flash.cycles
    return [
        f"{instructions / 1e6:.1f}",
        f"{code:,}",
        f"{data:,}",
        f"{(code + data) * flash.line_bytes / 1e6:.1f}",
        f"{face.lines * flash.line_bytes / 1e3:.0f}",
        f"{cycles / 1e6:.0f}",
        f"{cycles / instructions:.2f}",
        f"{cycles / target.clock_hz:.3f}",
    ]


def cached(machine, target: Target, flash: Flash):
    """Have all that the core reads of its flash go through the caches."""
    library = ctypes.CDLL(str(shared_library(Path(__file__).with_name("flash_cache.c"))))
    library.mct_flash.restype = ctypes.POINTER(Face)
    face = library.mct_flash().contents
    face.begin, face.end = target.flash.origin, target.flash.origin + (1 << 24)
    for i, (lines, ways) in enumerate((flash.code, flash.data or flash.code)):
        bits = flash.line_bytes.bit_length() - 1
        face.caches[i] = Shape(bits, ways, lines // ways, int(i == 1 and flash.data is None), 0)
    engine = machine.cpu.engine
    for kind, function in (
        (UC_HOOK_BLOCK, library.mct_flash_block),
        (UC_HOOK_MEM_READ, library.mct_flash_data),
    ):
        everywhere = (ctypes.c_uint64(1), ctypes.c_uint64(0))
        handle = ctypes.byref(ctypes.c_size_t())
        pointer = ctypes.cast(function, ctypes.c_void_p)
        uclib.uc_hook_add(engine._uch, handle, kind, pointer, None, *everywhere)
    return face, library


if __name__ == "__main__":
    main()
