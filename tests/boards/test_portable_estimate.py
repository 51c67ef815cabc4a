"""Estimates of the portable bodies beside what a Cortex-M3 and a RISC-V core execute."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from mcutrain import demo, prepare
from mcutrain.cost.counting import count_instructions
from mcutrain.cost.instructions import estimate
from mcutrain.pipeline import TrainingStep
from tests.cost.networks import attending, made
from tests.drawing import drawn_by_commit

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STEP_ERROR = 0.1
"""Of a whole step, by costs that are fitted to the core."""
STEPS: dict[str, Callable[[], TrainingStep]] = {
    "demo": lambda: prepare(demo.network(), "fashion-sparse", stream="off"),
    "demo-int16": lambda: prepare(demo.network(), "last:6", gradient_dtype="int16", stream="off"),
    "made": lambda: prepare(made(0), "full", stream="off"),
    "attending": lambda: prepare(attending(1), "full", stream="off"),
}

COMPARED = ("made", *drawn_by_commit([name for name in STEPS if name != "made"], 1))

step = lru_cache(maxsize=None)(lambda name: STEPS[name]())


@pytest.fixture(scope="module")
def scripts() -> Iterator[Callable[[str], ModuleType]]:
    """Scripts of benchmarks/, by name."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
                sys.modules.pop(name)


def estimated(name: str, costs: str) -> int:
    return sum(estimate(step(name).plan.training, costs).values())


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None,
    reason="the costs are for arm-none-eabi-gcc: apt install gcc-arm-none-eabi",
)
@pytest.mark.parametrize("name", COMPARED)
def test_a_cortex_m3_executes_what_is_estimated_for_portable_bodies(
    scripts: Callable[[str], ModuleType], name: str, tmp_path: Path
) -> None:
    pytest.importorskip("unicorn", reason="no emulator: pip install 'mcutrain[virtual]'")
    board = scripts("instruction_model").target_of("portable", tmp_path)
    assert "-mcpu=cortex-m3" in board.values["flags"]
    counted = sum(count_instructions(step(name), board).values())
    assert estimated(name, "portable") == pytest.approx(counted, rel=STEP_ERROR)


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(shutil.which, ("riscv64-unknown-elf-gcc", "qemu-riscv32"))),
    reason="no RISC-V here: apt install gcc-riscv64-unknown-elf qemu-user",
)
@pytest.mark.parametrize("name", COMPARED)
def test_a_riscv_core_executes_what_is_estimated_for_it(
    scripts: Callable[[str], ModuleType], name: str
) -> None:
    counted = sum(scripts("riscv_nodes").count_nodes(step(name)).values())
    assert estimated(name, "rv32imc") == pytest.approx(counted, rel=STEP_ERROR)
