"""What a scheme is chosen by: the run that it is for, and the parts of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import PlanError
from mcutrain.functions.chooser import Chooser
from tests.cli.conftest import Run


def tell(chooser: Chooser, *_: Any) -> None:
    raise PlanError(f"chosen for {chooser.epochs} epochs")


def test_a_run_chooses_its_scheme_for_its_own_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chooser, "compared", tell)
    monkeypatch.setattr(Chooser, "choose", tell)
    few = {"samples": 20, "test_samples": 10}
    with pytest.raises(PlanError, match="chosen for 9 epochs"):
        mcutrain.simulate(MODEL, IMAGES, epochs=9, **few)
    with pytest.raises(PlanError, match="chosen for 7 epochs"):
        mcutrain.compare(MODEL, IMAGES, schemes=["auto"], epochs=7, **few)


@pytest.mark.parametrize("command", [("plan",), ("generate", "-o", "project")])
def test_groups_stay_in_one_part_of_the_samples_that_choose(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    x, y = np.zeros((4, 28, 28, 1), np.uint8), np.arange(4) % 2
    np.savez(tmp_path / "few.npz", x=x, y=y, who=np.array(list("aabb")))
    line = (command[0], MODEL, *command[1:], "--classes", "2")
    found = run(*line, "--data", tmp_path / "few.npz", "--split-by", "whom")
    assert "whom" in found.sentence
    for flag in ("--split-by", "--label-column"):
        alone = run(*line, flag, "who")
        assert alone.code == 2
        said = " ".join(alone.err.replace("│", " ").split())
        assert f"{flag}: is of training samples: give them, too (--data)" in said
