"""What the command line does, from Python."""

import hashlib
from pathlib import Path

import pytest

import mcutrain
from mcutrain import data
from tests.cli.conftest import Run


def test_every_public_name_is_there() -> None:
    assert all(getattr(mcutrain, name) is not None for name in mcutrain.__all__)
    with pytest.raises(AttributeError, match="'mcutrain' has no attribute 'nothing'"):
        _ = mcutrain.nothing


def test_python_and_the_command_line_train_to_the_same_bits(
    run: Run, model: Path, images: Path
) -> None:
    flags = ("--scheme", "bias:2", "--samples", 40, "--test-samples", 20, "--epochs", 2)
    facts = run("simulate", model, "--data", images, *flags, "--seed", 3, "--json").json
    step = mcutrain.prepare(model, "bias:2", head_seed=3)
    split = data.load(images, samples=40, test_samples=20, seed=3)
    with pytest.warns(UserWarning, match="the model may know such samples already"):
        result = mcutrain.train(step, split, epochs=2, seed=3)
    assert hashlib.sha256(result.saved).hexdigest() == facts["state_sha256"]
    assert result.accuracy == facts["accuracy"]
    assert result.learning_rate == facts["settings"]["learning_rate"]  # found by both
    assert result.sram_bytes == step.plan.sram_bytes == facts["sram_bytes"]


def test_settings_that_are_given_twice_follow_the_keyword(model: Path, images: Path) -> None:
    step = mcutrain.prepare(model, "head")
    split = data.load(images)
    split = data.Split(split.train.subset(8), split.test.subset(4))
    settings = mcutrain.RunSettings(epochs=3, learning_rate=0.5)
    result = mcutrain.train(step, split, settings, epochs=1, learning_rate=0.25)
    assert (result.steps, result.learning_rate) == (8, 0.25)
