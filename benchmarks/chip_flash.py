"""How flash waits on chips with a Cortex-M4, M33, M7 or RISC-V, and what runs their code."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import riscv_nodes
from device_instructions import SETTLING_STEPS, settled
from mcutrain_host.build import build
from mcutrain_host.client import Device, Patience
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.toolchain import shared_library
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.qemu import QemuBoard
from qemu_instructions import MODEL_FUNCTIONS

from mcutrain.pipeline import TrainingStep
from mcutrain.target import load_target

PLUGIN = Path(__file__).with_name("qemu_flash.c")
PATIENCE = Patience(answer_seconds=60.0, work_seconds=1800.0)
"""A watched instruction takes a hundred times as long."""
CYCLE = 16
"""The plugin's units of time in a cycle."""
M4, M7 = 1.5, 1.0
"""Cycles per instruction without waits: Arm's tables, and the M4's by CoreMark's ratio."""


@dataclass(frozen=True)
class ChipFlash:
    """A board's flash, as its chip's reference manual describes it.

    line_bytes: of a read; wait: cycles that the core waits for one; has_next: it reads ahead;
    code, data: sets and ways of the caches; is_one_cache: code's is for both; ram_from: offset of
    the RAM that the data cache is for, too.
    """

    board: str
    line_bytes: int
    wait: int
    cycles: float = M4
    has_next: bool = False
    keeps_next: bool = False
    code: tuple[int, int] = (0, 0)
    data: tuple[int, int] = (0, 0)
    is_one_cache: bool = False
    ram_from: int = 0

    def line(self) -> str:
        """For the plugin."""
        fields = (
            *(self.line_bytes.bit_length() - 1, self.wait, round(self.cycles * CYCLE)),
            *(int(self.has_next), int(self.keeps_next), *self.code, *self.data),
            *(int(self.is_one_cache), self.ram_from),
        )
        return " ".join([self.board, *map(str, fields)])


ART = {"line_bytes": 16, "has_next": True, "code": (1, 64), "data": (1, 8)}
"""The STM32F4's accelerator (RM0090, 3.5.2): fully associative; it keeps nothing read ahead."""
CHIPS = {
    "netduinoplus2": (
        ChipFlash("nucleo-f446re", wait=5, **ART),  # 180 MHz: RM0390
        ChipFlash("nucleo-f401re", wait=2, **ART),  # 84 MHz: RM0368
        ChipFlash("netduinoplus2", wait=5, **ART),  # 168 MHz: RM0090
        ChipFlash("nucleo-f303re", 8, 2, has_next=True),  # 72 MHz: RM0316
        # an instruction cache of 2 KB: its two ways and lines are those of the nRF5340
        ChipFlash("nrf52840-dk", 16, 2, code=(64, 2)),
        # command, address, mode, dummies and data at half of the clock, as for rpi-pico
        ChipFlash("rpi-pico-2", 8, (8 + 8 + 4 + 16) * 2, code=(1024, 2), is_one_cache=True),
    ),
    "mps2-an500": (
        # 216 MHz: 7 wait states (RM0385) and four beats of 8 bytes; L1 caches of 4 KB
        ChipFlash("stm32f746g-disco", 32, 7 + 4, M7, code=(64, 2), data=(32, 4), ram_from=0x10000),
    ),
}
"""By the board whose firmware QEMU runs: the kernels are the same. Wait states are those that the
manuals' tables have for the board's clock at 3.3 V."""


RISCV = "rv32imc"
"""Instead of a board's firmware: a library of `generate` in a program of Linux."""
ESP32_C3 = ChipFlash(
    "esp32-c3-devkit",
    32,
    (8 + 16 + 32 * 4) * 2,
    cycles=1.32,
    code=(64, 8),
    is_one_cache=True,
)
"""A cache of 16 KB with eight ways and lines of 32 bytes (ESP32-C3 Series Datasheet, "Cache"). The
flash answers on two lines at 80 MHz, half of the core's clock, as ESP-IDF has it by default:
command, address with mode, data. CoreMark takes 1.32 cycles for an instruction: board.toml."""


@dataclass(frozen=True)
class Waits:
    """Flash waits of a chip in an inference or a step: cycles and lines."""

    chip: ChipFlash
    instructions: int
    code: int
    data: int
    code_lines: int
    data_lines: int

    @property
    def cycles(self) -> float:
        """With the waits."""
        return self.instructions * self.chip.cycles + self.code + self.data

    @property
    def share(self) -> float:
        """The waits' of all cycles."""
        return (self.code + self.data) / self.cycles

    @property
    def bytes_read(self) -> int:
        """Bytes read from flash, without what was read ahead and not waited for."""
        return (self.code_lines + self.data_lines) * self.chip.line_bytes


class WatchingQemu(QemuBoard):
    """A board in QEMU with the plugin. options: of the plugin."""

    options = ""

    def command(self) -> list[str]:
        """The board's command line, and the plugin."""
        return [*super().command(), "-plugin", f"{shared_library(PLUGIN)},{self.options}"]


@contextmanager
def watched(folder: Path, chips: tuple[ChipFlash, ...]) -> Iterator[tuple[Device, Path]]:
    """A built project's board in QEMU, and the file that the plugin writes."""
    project = BoardProject.read(folder)
    image = Image.from_elf(project.built_elf())
    model = {*MODEL_FUNCTIONS, *image.model_functions}
    target = load_target(project.board.name)
    assert target.flash is not None
    assert target.ram is not None
    spans = (target.flash.origin, target.flash.origin + target.flash.size_bytes, target.ram.origin)
    with tempfile.TemporaryDirectory() as scratch:
        paths = {name: Path(scratch) / name for name in ("ranges", "chips", "out")}
        paths["ranges"].write_text(
            "".join(
                f"{f.address:x} {f.address + f.size_bytes:x} {int(f.name in model)} {f.name}\n"
                for f in image.functions
            )
        )
        lines = [" ".join(f"{n:x}" for n in spans), *(chip.line() for chip in chips)]
        paths["chips"].write_text("\n".join(lines) + "\n")
        board = WatchingQemu(project.board, project.built_elf())
        board.options = ",".join(f"{name}={path}" for name, path in paths.items())
        with board, SerialLink(board.port) as link:
            yield Device(link, PATIENCE), paths["out"]


def waits(step: TrainingStep, runs_on: str) -> Iterator[tuple[str, Waits]]:
    """Yield the waits of an inference and of the third step, for all chips whose code this runs."""
    chips = CHIPS[runs_on]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(load_target(runs_on)).write(folder)
        build(folder)
        with watched(folder, chips) as (device, out):
            for name, action in settled(device):
                device.identify()  # the model's code has returned
                before = len(out.read_text().splitlines())
                action()
                device.identify()
                for found in summed(out.read_text().splitlines()[before:], chips):
                    yield name, found


def riscv_waits(step: TrainingStep) -> Iterator[tuple[str, Waits]]:
    """Yield the waits of the third step on RISC-V."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = riscv_nodes.built(step, folder)
        given = list(riscv_nodes.samples(step))[: 2 * (SETTLING_STEPS + 1)]
        spans = " ".join(f"{n:x}" for n in riscv_nodes.constant_span(program))
        (folder / "chips").write_text(f"{spans} 0\n{ESP32_C3.line()}\n")
        lines = riscv_nodes.watched(program, folder, b"".join(given), PLUGIN, "chips")
    ends = [i + 1 for i, line in enumerate(lines) if line.startswith(f"= {riscv_nodes.TRAIN} ")]
    for found in summed(lines[ends[-2] : ends[-1]], (ESP32_C3,)):
        yield "step", found


def summed(lines: list[str], chips: tuple[ChipFlash, ...]) -> list[Waits]:
    """Over the calls of the model."""
    instructions = 0
    totals = {chip.board: [0, 0, 0, 0] for chip in chips}
    for name, *numbers in (line.split() for line in lines):
        if name == "=":
            instructions += int(numbers[1])
        else:
            totals[name] = [a + int(b) for a, b in zip(totals[name], numbers, strict=True)]
    return [
        Waits(chip, instructions, *totals[chip.board])  # type: ignore[call-arg]
        for chip in chips
    ]
