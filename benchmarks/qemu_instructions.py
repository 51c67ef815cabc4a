"""Counts what a firmware's model takes on a board that only QEMU has: by a plugin of QEMU."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.toolchain import shared_library
from mcutrain_host.virtual.counter import OperatorCount
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.qemu import QemuBoard

from mcutrain.cost.counting import by_node, noise, run_counted
from mcutrain.pipeline import TrainingStep
from mcutrain.target import Target

PLUGIN = Path(__file__).with_name("qemu_counter.c")
MODEL_FUNCTIONS = ("mct_feed", "mct_infer", "mct_train")
OWN = "calls and bookkeeping"
"""What the model's own code is called, `-` in the plugin's file."""


class CountingQemu(QemuBoard):
    """A board in QEMU with the plugin. options: of the plugin."""

    options = ""

    def command(self) -> list[str]:
        """The board's command line, and the plugin."""
        return [*super().command(), "-plugin", f"{shared_library(PLUGIN)},{self.options}"]


@dataclass(frozen=True)
class CountedBoard:
    """A running board, and the file that its plugin writes."""

    device: Device
    out: Path

    def rows(self, begin: int) -> list[OperatorCount]:
        """The calls that the model made since the file had so many lines, by root and number."""
        return rows_of_lines(self.lines()[begin:])

    def counted(self, action: Callable[[], object]) -> Counter[str]:
        """What the model's calls took while `action` ran, by the function that was called."""
        before = len(self.lines())
        action()
        self.device.identify()  # the model's code has returned
        found: Counter[str] = Counter()
        for name, count in (line.split() for line in self.lines()[before:]):
            if name != "=":
                found[OWN if name == "-" else name] += int(count)
        return found

    def lines(self) -> list[str]:
        """Lines of the file so far."""
        return self.out.read_text().splitlines()


def rows_of_lines(lines: Iterable[str]) -> list[OperatorCount]:
    """The calls that the model made, by root and number. lines: of the plugin's file."""
    found: dict[tuple[str, int], OperatorCount] = {}
    calls: list[tuple[str, int]] = []
    for name, word in (line.split() for line in lines):
        if name != "=":
            calls.append((name, int(word)))
            continue
        for index, (function, count) in enumerate(calls):
            before = found.get((word, index), OperatorCount(word, index, function, 0, 0))
            total, times = before.instructions + count, before.calls + 1
            found[word, index] = OperatorCount(word, index, function, total, times)
        calls = []
    return list(found.values())


@contextmanager
def counted_board(folder: Path) -> Iterator[CountedBoard]:
    """A built project's board, in QEMU."""
    project = BoardProject.read(folder)
    image = Image.from_elf(project.built_elf())
    model = {*MODEL_FUNCTIONS, *image.model_functions}
    lines = (
        f"{f.address:x} {f.address + f.size_bytes:x} {int(f.name in model)} {f.name}"
        for f in image.functions
    )
    with tempfile.TemporaryDirectory() as scratch:
        ranges, out = Path(scratch) / "ranges", Path(scratch) / "out"
        ranges.write_text("\n".join(lines) + "\n")
        board = CountingQemu(project.board, project.built_elf())
        board.options = f"ranges={ranges},out={out}"
        with board, SerialLink(board.port) as link:
            yield CountedBoard(Device(link), out)


def count_nodes(step: TrainingStep, target: Target) -> Mapping[str, int]:
    """What `count_instructions` counts, of a step that streams nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(target).write(folder)
        build(folder)
        with counted_board(folder) as board:
            begin: list[int] = []
            training = step.plan.training
            steps = run_counted(
                board.device, training, noise(training), lambda: begin.append(len(board.lines()))
            )
            board.device.identify()  # the model's code has returned
            return by_node(step.plan, board.rows(begin[0]), steps)
