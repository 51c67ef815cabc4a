"""`mcutrain analyze` as a user calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcutrain.cli import analyze as command
from mcutrain.cli import main
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import AnalysisError
from mcutrain.functions import learning
from mcutrain.pipeline import load
from mcutrain.selection.contribution import read_contributions

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]
FEW = ("--samples", 8, "--test-samples", 8)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls `mcutrain analyze` with the demo's network, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, model: Path = MODEL) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mcutrain", "analyze", *map(str, (model, *arguments))])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def sentence(outcome: Outcome) -> str:
    code, out, err = outcome
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    return " ".join(err.split())


def images(path: Path, y: np.ndarray, size: int = 28) -> Path:
    x = np.random.default_rng(0).integers(0, 256, (len(y), size, size), np.uint8)
    np.savez(path, x=x, y=y)
    return path


@pytest.mark.slow
def test_an_analysis_by_gradient_is_printed_and_written(run: Run, tmp_path: Path) -> None:
    arguments = ("--data", IMAGES, "--by", "gradient", *FEW, "-o", "analysis.json")
    code, out, err = run(*arguments)
    assert code == 0, err
    says = "What training a part gains, in effective dimensions that steps of one sample reach: "
    assert says in out
    assert "block8/project" in out
    assert "25 layers and its own head of 10 classes, 8 training and 8 test samples" in err
    found = read_contributions(tmp_path / "analysis.json", load(MODEL))
    assert len(found.layers) == 25
    assert [p.name for p in tmp_path.iterdir()] == ["analysis.json"]
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    again = json.loads(out)
    assert again["method"] == "gradient"
    assert again["gains"] == json.loads(found.to_json())["gains"]


@pytest.mark.slow
def test_json_has_no_kernels_but_says_where_they_are(run: Run, tmp_path: Path) -> None:
    """They are megabytes of what no person reads."""
    quick = ("--by", "gradient", "--gradient-samples", 2, "--head-epochs", 1, "--lr", 0.001)
    code, out, _ = run("--data", IMAGES, *FEW, *quick, "--json", "-o", "a.json")
    assert code == 0
    printed, written = json.loads(out), json.loads((tmp_path / "a.json").read_text())
    kernels = written.pop("kernels")
    assert printed.pop("kernels") == {"samples": kernels["samples"], "file": "a.json"}
    assert len(kernels["biases"]) == 25
    assert printed == written
    (tmp_path / "printed.json").write_text(out)
    with pytest.raises(AnalysisError, match="it is what --json printed, without the kernels; take"):
        read_contributions(tmp_path / "printed.json")


def test_one_class_only_is_explained(run: Run, tmp_path: Path) -> None:
    path = images(tmp_path / "one.npz", np.zeros(20, np.int64))
    assert "of one class" in sentence(run("--data", path))


def test_labels_that_are_missing_are_explained(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((20, 28, 28), np.uint8))
    assert "x.npz" in sentence(run("--data", "x.npz"))


def test_data_that_does_not_fit_is_explained(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    np.savez(path, x=np.zeros((20, 7), np.float32), y=np.arange(20) % 2)
    assert "(7,)" in sentence(run("--data", path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "none.npz"), "none.npz"),
        (("--data", IMAGES, "--by", "guessing"), "guessing"),
        (("--data", IMAGES, "--classes", "few"), "neither a number of classes"),
        (("--data", IMAGES, "--scheduler", "tcp://localhost:1", *FEW), "--backend dask or ray"),
        (("--data", IMAGES, "-o", "no/analysis.json"), "cannot write no/analysis.json"),
        (("--data", IMAGES, "--jobs", 0), "--jobs"),
        (("--data", IMAGES, "--samples", 2, "--by", "gradient"), "training samples are too few"),
        (("--data", IMAGES, "--lr", "-1", *FEW), "--lr: is -1.0: it must be above 0"),
        (("--data", IMAGES, "--classes", "1", *FEW), "the model has 1 classes"),
        (("--data", IMAGES, "--module-rate", "0.1", *FEW), "has none: leave it out, or add"),
        (("--data", IMAGES, "--module-rate", "nan", *FEW), "--module-rate: is nan"),
    ],
)
def test_a_wrong_flag_is_explained(run: Run, arguments: tuple[object, ...], says: str) -> None:
    assert says in sentence(run(*arguments))


def test_a_file_that_is_no_model_is_explained(run: Run) -> None:
    assert "neither a .tflite nor an .onnx file" in sentence(run("--data", IMAGES, model=IMAGES))


def test_an_interruption_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "by_training", interrupted)
    code, out, err = run("--data", IMAGES, *FEW)
    assert code == command.INTERRUPTED
    assert out == ""
    assert "the same command continues" in err


@pytest.mark.slow
def test_a_rate_at_which_the_head_learns_nothing_is_said(run: Run) -> None:
    quick = ("--by", "gradient", "--gradient-samples", 2, "--head-epochs", 1)
    code, _, err = run("--data", IMAGES, *FEW, *quick, "--classes", 10, "--lr", 1e-12)
    assert code == 0
    assert "mcutrain: with the head alone nothing was learnt at a learning rate of 1e-12" in err
