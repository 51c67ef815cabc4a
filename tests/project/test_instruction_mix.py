"""benchmarks/instruction_mix.py: in which row and column instructions count."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mcutrain import prepare
from mcutrain.pipeline import load

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def mix() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("instruction_mix")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_instructions_are_sorted_by_how_their_names_begin(mix: ModuleType) -> None:
    sorts = {"smladx": "multiply", "ldrsb.w": "load", "sxtab16": "unpack", "strb": "store"}
    assert {name: mix.sort_of(name) for name in sorts} == sorts
    assert mix.sort_of("ssat") == mix.sort_of("subs") == "rest"


@pytest.mark.shared
def test_each_convolution_of_an_image_has_a_row(mix: ModuleType, shared: Path) -> None:
    graph = load(shared / "models/mcunet-5fps.int8.tflite")
    training = prepare(graph, "mcunet-5fps-49kb", classes=10, stream="off").plan.training
    kinds = Counter(mix.forward_kind(node, training.forward) for node in training.forward.nodes)
    del kinds[""]
    assert sum(kinds.values()) == 27 + 15
    assert kinds["3×3, stride 2"] == 1
    assert kinds["depthwise 7×7, stride 2"] == 2
    back = [mix.backward_kind(node, training.graph) for node in training.graph.nodes]
    assert back.count("input gradients of 1×1") == 14
