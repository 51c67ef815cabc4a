"""A selected scheme never needs more than its budget in the linked ELF."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from mcutrain_host.build import build
from mcutrain_host.memory import linked_memory

from mcutrain.cost.schemes import cost_model, has_compiler
from mcutrain.errors import PlanError
from mcutrain.functions.memory_limit import limits_of
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load, prepare
from mcutrain.selection.cost import Limits
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.target import load_target
from tests.cli.small import write_small
from tests.selection.networks import contributions, graph_of, scheme_of

BOARDS = ("nucleo-f446re", "rpi-pico", "stm32f746g-disco")
SHARES = (0.25, 1.0)
KIB = 1024


@lru_cache(maxsize=1)
def network() -> Graph:
    """Five layers before the head; all of them take 205 KB to train."""
    with TemporaryDirectory() as folder:
        return load(write_small(Path(folder)))


@lru_cache(maxsize=3)
def selector(board: str) -> Selector:
    graph = network()
    found = contributions(graph, np.random.default_rng(7), SHARES)
    return Selector(graph, found, cost_model(graph, load_target(board)))


def linked(selection: Selection, board: str, folder: Path) -> tuple[int, int]:
    """SRAM and flash of the firmware; what is in flash is larger at -O3."""
    prepare(network(), selection.scheme).firmware(load_target(board)).write(folder)
    build(folder, optimize="-O1")  # compiles sooner; SRAM is the same
    memory = linked_memory(folder)
    assert memory is not None
    return memory.linked_bytes, memory.flash_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "budget_kib"), [*((board, None) for board in BOARDS), ("nucleo-f446re", 40)]
)
def test_linked_firmware_is_within_the_budget(board, budget_kib, tmp_path):
    target = load_target(board)
    if not has_compiler(target):
        pytest.skip(f"no compiler for {board}")
    assert target.ram is not None
    assert target.flash is not None
    budget = target.ram.size_bytes if budget_kib is None else budget_kib * KIB
    selection = selector(board).select(Limits(budget, target.flash.size_bytes), with_next=False)
    sram, flash = linked(selection, board, tmp_path / "p")
    assert sram == selection.measured.sram_bytes <= budget
    assert flash <= selection.measured.flash_bytes <= target.flash.size_bytes


def test_costs_on_a_board_leave_no_sram_unused_that_one_more_choice_needs():
    """The optimum at the SRAM that it takes is the same; at a byte less it is another one."""
    found = selector("nucleo-f446re")
    selection = found.select(Limits(60 * KIB), with_next=False)
    need = selection.measured.sram_bytes
    assert found.select(Limits(need), with_next=False).scheme == selection.scheme
    assert found.select(Limits(need - 1), with_next=False).gain < selection.gain


def test_flash_limits_the_choice_as_well():
    found = selector("rpi-pico")
    free = found.select(Limits(80 * KIB))
    head = found.costs.plan(scheme_of(0, (), 4))
    limit = (free.measured.flash_bytes + head.flash_bytes) // 2
    small = found.select(Limits(80 * KIB, limit))
    assert small.measured.flash_bytes <= limit < free.measured.flash_bytes
    assert small.gain < free.gain
    assert "flash" in small.binding
    slow = found.select(Limits(instructions=head.instructions + 1_000_000))
    assert slow.measured.instructions <= head.instructions + 1_000_000
    assert slow.binding == "instructions of a step"


@pytest.mark.skipif(not has_compiler(load_target("nucleo-f446re")), reason="no compiler")
def test_the_winner_is_compiled_and_its_flash_measured():
    graph, target = graph_of("chain", 1), load_target("nucleo-f446re")
    found = contributions(graph, np.random.default_rng(7), SHARES)
    compiling = cost_model(graph, target, builds=True)
    assert compiling.build is not None
    chosen = Selector(graph, found, compiling).select(Limits(40 * KIB), with_next=False)
    estimated = compiling.plan(chosen.scheme)
    assert chosen.measured.was_built
    assert chosen.measured.sram_bytes == estimated.sram_bytes
    assert chosen.measured.flash_bytes < estimated.flash_bytes


@pytest.mark.parametrize("missing", [1000, 1001])
def test_what_only_the_flash_of_the_slots_would_hold_says_so(missing):
    found = selector("nucleo-f446re")
    head = found.costs.plan(scheme_of(0, (), 4))
    limits = Limits(flash_bytes=head.flash_bytes - missing, slots_flash_bytes=1000)
    with pytest.raises(PlanError, match=f"of flash, {missing:,} more than the limit") as caught:
        found.select(limits)
    leaves = f"--slots off leaves the program {head.flash_bytes:,} bytes of flash"
    assert (leaves in str(caught.value)) == (missing == 1000)


def test_the_boards_slots_are_among_its_limits():
    board = load_target("nucleo-f446re")
    assert limits_of(board, None, None, None, None).slots_flash_bytes == 256 * KIB
    assert limits_of(board, None, 100 * KIB, None, None).slots_flash_bytes == 0
    given = limits_of(board.without_slots(), None, None, None, None)
    assert (given.flash_bytes, given.slots_flash_bytes) == (512 * KIB, 0)
