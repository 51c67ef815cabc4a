"""The stub for type checkers has all keywords of the functions."""

from __future__ import annotations

import os
from pathlib import Path

import mcutrain
from mcutrain.functions.stub import stub

FILE = Path(mcutrain.__file__).with_suffix(".pyi")


def test_the_stub_is_what_the_signatures_say() -> None:
    """MCUTRAIN_WRITE_GOLDEN=1 writes it."""
    if os.environ.get("MCUTRAIN_WRITE_GOLDEN"):
        FILE.write_text(stub(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == stub()


def test_a_keyword_has_its_type_and_may_be_left_out() -> None:
    text = stub()
    simulate = text[text.index("def simulate(") :].partition(": ...\n")[0]
    assert "    epochs: int = ...,\n" in simulate
    assert "    learning_rate: float | None = ...,\n" in simulate
    assert "    update_rule: str | None = ...,\n" in simulate
    assert simulate.endswith(") -> SimulationResult")
    assert "from mcutrain.runs.result import SimulationResult as SimulationResult\n" in text
