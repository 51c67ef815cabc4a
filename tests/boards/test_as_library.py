"""A library in a program of one's own is as fast as a board's firmware, and computes its bits.

The library is built by its own Makefile, for the processor of a virtual board whose start-up and
drivers are around it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from mcutrain_host.client import Device
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine

from mcutrain.target import load_target
from tests.boards.projects import built, lessons, simulated_state, training_step
from tests.boards.test_same_bits import trained
from tests.codegen.test_own_program import compiler, run
from tests.compiled import make
from tests.drawing import drawn_by_commit

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 3
DIFFERENCE = 0.01
"""Of the instructions of a step; here the same compiler has made the same code."""
BOARDS = drawn_by_commit(("mps2-an386", "stm32f746g-disco", "rpi-pico"), 1)
"""A Cortex-M4, a Cortex-M7, which has the same bodies, and a Cortex-M0+."""


@pytest.fixture(scope="module")
def as_library() -> Iterator[ModuleType]:
    """The script that puts a board's firmware around a library."""
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        module = importlib.import_module("as_library")
        module.run_make = make
        yield module
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))
        sys.modules.pop("as_library", None)


@dataclass(frozen=True)
class Learnt:
    """state: after some steps. instructions: that those took, in the model's own code."""

    state: bytes
    instructions: int

    @staticmethod
    def of(folder: Path) -> Learnt:
        machine = load_machine(folder, LoopbackLink())
        x, y = lessons()
        state = trained(Device(DirectLink(machine)), x[:STEPS], y[:STEPS])
        return Learnt(state, instructions_of_steps(machine))


def instructions_of_steps(machine: Machine) -> int:
    """Layers that compute row by row do so while the sample comes."""
    roots = ("mct_feed", "mct_train", "segment_")
    return sum(row.instructions for row in machine.operators() if row.root.startswith(roots))


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_a_library_takes_the_instructions_of_the_firmware_and_has_the_simulations_bits(
    board: str, as_library: ModuleType, projects_root: Path, tmp_path: Path
) -> None:
    compiler("arm-none-eabi-gcc")
    compiler("make")
    archive = as_library.build_as_library(training_step(), board, tmp_path / "program")
    code = run(["arm-none-eabi-objdump", "-d", archive])
    assert ("smlad" in code) == (load_target(board).isa == "dsp")
    assert len(re.findall(r"<mct_conv_2d_s8>:", code)) == 1
    library, firmware = Learnt.of(tmp_path / "program"), Learnt.of(built(projects_root, board))
    assert library.state == firmware.state == simulated_state(STEPS)
    assert abs(library.instructions / firmware.instructions - 1) <= DIFFERENCE


@pytest.mark.slow
def test_a_library_of_portable_kernels_takes_half_as_many_more(
    as_library: ModuleType, projects_root: Path, tmp_path: Path
) -> None:
    """Else the comparison above would not see which kernels run."""
    board = "mps2-an386"
    compiler("arm-none-eabi-gcc")
    as_library.build_as_library(training_step(), board, tmp_path / "program", isa="portable")
    library, firmware = Learnt.of(tmp_path / "program"), Learnt.of(built(projects_root, board))
    assert library.state == firmware.state
    assert library.instructions > 1.5 * firmware.instructions
