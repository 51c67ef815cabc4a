"""A file that is no checkpoint is named before anything is read or analysed."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcutrain
from mcutrain.errors import StateError
from tests.cli.conftest import Run


def test_a_file_that_is_no_checkpoint_is_said_before_samples_are_read(
    run: Run, model: Path
) -> None:
    Path("run.npz").write_text("hello")
    flags = ("--data", "nowhere.npz", "--checkpoint", "run.npz")
    assert run("simulate", model, *flags).sentence.startswith("run.npz is no checkpoint")
    with pytest.raises(StateError, match=r"^run\.npz is no checkpoint"):
        mcutrain.simulate(model, "nowhere.npz", checkpoint="run.npz")
