"""How many of the estimated instructions a RISC-V core executes: what its board's file rests on."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mcutrain.cost.instructions import estimate
from mcutrain.target import board_names, load_target
from tests.boards.projects import training_step

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LEAST, MOST = 0.46, 0.55
"""Shares of four steps: firmware/boards/esp32-c3-devkit/board.toml."""


@pytest.fixture(scope="module")
def riscv() -> Iterator[ModuleType]:
    """The script that counts in Unicorn."""
    pytest.importorskip("ziglang", reason="no zig: pip install 'mcutrain[compiler]'")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("riscv_instructions")
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("riscv_instructions", None)


@pytest.mark.slow
def test_a_riscv_core_executes_half_of_what_the_portable_model_estimates(
    riscv: ModuleType, tmp_path: Path
) -> None:
    step = training_step()
    core = riscv.Core(riscv.built(step, tmp_path, "-O3"))
    core.call("reset")
    sample = np.random.default_rng(0).integers(-128, 128, step.input_type.size_bytes)
    core.write("sample", sample.astype(np.int8).tobytes())
    counted = core.call("train", 0)
    estimated = sum(estimate(step.plan.training, "portable", step.plan.segments).values())
    assert LEAST < counted / estimated < MOST


def test_planned_cycles_are_those_shares_of_cycles_that_an_instruction_may_take() -> None:
    boards = [t for t in map(load_target, board_names()) if t.core == "RV32IMC"]
    assert boards
    for board in boards:
        assert board.cycles_per_instruction == 0.5 * 1.5
        assert board.cycles_range[0] == pytest.approx(LEAST * 1.2, abs=0.005)
        assert board.cycles_range[1] == pytest.approx(MOST * 2.2, abs=0.02)
