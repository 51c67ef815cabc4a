"""--head-start: a new classifier from class means, by command, by function, in a project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import ArgumentError
from mcutrain.functions.chosen import Choosing
from mcutrain.pipeline import load
from mcutrain.runs.head_start import MOST_FOR_A_CLASS, head_start_of
from mcutrain.runs.sample_reading import load_data
from tests.cli.conftest import Board, Run, done

DATA = ("--samples", 60, "--test-samples", 40)
START = ("--head-start", "prototypes", "--classes", 10)


@pytest.mark.slow
def test_without_a_step_it_tells_classes_apart_and_can_be_exported(
    run: Run, model: Path, images: Path
) -> None:
    flags = ("--data", images, *DATA, "--epochs", 0)
    kept = ("--save-state", "head.mcts", "--checkpoint", "run.npz")
    found = run("simulate", model, *flags, *START, *kept, "--json").json
    drawn = run("simulate", model, *flags, "--classes", 10, "--json").json
    assert found["accuracy"] == found["accuracy_before"] > 0.4 > drawn["accuracy"]
    assert (found["steps"], found["epochs"], found["settings"]["learning_rate"]) == (0, [], 0.0)
    for state in ("head.mcts", "run.npz"):
        assert run("export", model, "--state", state, "-o", "new.tflite").code == 0
        known = run("simulate", "new.tflite", *flags, "--classes", "keep", "--json").json
        assert known["accuracy"] == found["accuracy"]
    printed = run("simulate", model, *flags, *START).out
    assert "time per step" not in printed


@pytest.mark.slow
def test_all_ways_to_compute_learn_the_same_from_it(run: Run, model: Path, images: Path) -> None:
    few = ("--samples", 30, "--test-samples", 10)
    flags = ("--data", images, *few, *START, "--epochs", 1, "--lr", "0.001", "--scheme", "last:2")
    found = run("simulate", model, *flags, "--json").json["state_sha256"]
    for way in (("--reference",), ("--portable", "--latent", "off")):
        assert run("simulate", model, *flags, *way, "--json").json["state_sha256"] == found
    result = mcutrain.simulate(
        model,
        load_data(load(model), images, samples=30, test_samples=10),
        "last:2",
        classes=10,
        head_start="prototypes",
        epochs=1,
        learning_rate=0.001,
    )
    assert result.to_dict()["state_sha256"] == found
    for _ in range(2):  # made again, it is the same: the run goes on
        kept = run("simulate", model, *flags, "--checkpoint", "run.npz", "--json").json
        assert kept["state_sha256"] == found
    random = run("simulate", model, *flags, "--head-start", "random", "--json").json
    assert random["state_sha256"] != found


@pytest.mark.slow
def test_zeros_need_no_samples(run: Run, model: Path, images: Path) -> None:
    few = ("--scheme", "head", "--classes", 10, "--epochs", 1, "--lr", "0.01")
    flags = ("--data", images, *DATA, *few)
    found = [
        run("simulate", model, *flags, "--head-start", start, "--json").json["state_sha256"]
        for start in ("random", "zeros", "prototypes")
    ]
    assert len(set(found)) == 3
    split = load_data(load(model), images, samples=60, test_samples=40)
    learning = {"classes": 10, "epochs": 1, "learning_rate": 0.01}
    result = mcutrain.simulate(model, split, "head", head_start="zeros", **learning)
    assert result.to_dict()["state_sha256"] == found[1]
    made = ("generate", model, "--classes", 10, "--head-start", "zeros")
    assert run(*made, "-o", "ours").code == 0
    mcutrain.generate(model, "theirs", classes=10, head_start="zeros")
    assert Path("ours/src/mct_model.c").read_text() == Path("theirs/src/mct_model.c").read_text()
    assert "initial_head_weight_new[" not in Path("ours/src/mct_constants.c").read_text()


def test_an_episode_needs_no_step(run: Run, model: Path, images: Path) -> None:
    flags = ("--ways", 3, "--shots", 4, "--episodes", 2, "--epochs", 0, "--test-samples", 30)
    found = run("simulate", model, "--data", images, *flags, "--head-start", "prototypes", "--json")
    assert [one["steps"] for one in found.json["episodes"]] == [0, 0]
    assert found.json["accuracy"] > 0.5


@pytest.mark.slow
def test_a_generated_project_begins_with_it(run: Run, model: Path, images: Path) -> None:
    assert run("generate", model, *START, "--data", images, "-o", "ours").code == 0
    graph = load(model)
    split = load_data(graph, images)
    start = head_start_of("prototypes", graph, split, 10)
    step = mcutrain.prepare(graph, classes=10, head_start=start)
    constants = Path("src", "mct_constants.c")
    assert Path("ours", constants).read_text() == step.project.files[str(constants)]
    mcutrain.generate(model, "theirs", classes=10, head_start="prototypes", data=images)
    ours, theirs = (
        {p.relative_to(f): p.read_bytes() for p in Path(f).rglob("*") if p.is_file()}
        for f in ("ours", "theirs")
    )
    assert ours == theirs
    assert run("generate", model, "--classes", 10, "-o", "random").code == 0
    assert Path("random", constants).read_bytes() != ours[constants]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of which all training samples are taken."""
    file = tmp_path_factory.mktemp("few") / "few.npz"
    with np.load(IMAGES) as all_of_them:
        x, y = all_of_them["x_train"][:60], all_of_them["y_train"][:60]
    np.savez(file, x_train=x[:50], y_train=y[:50], x_test=x[50:], y_test=y[50:])
    return file


@pytest.fixture(scope="module")
def project(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prototypes") / "project"
    done("generate", MODEL, *START, "--data", few, "--board", "native", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


def test_a_board_begins_where_the_simulation_does(
    run: Run, board: Board, folder: Path, few: Path
) -> None:
    flags = ("--data", few, "--epochs", 1, "--lr", "0.01", "--json")
    simulated = run("simulate", MODEL, "--scheme", "head", *START, *flags).json
    trained = run("train", folder, *flags, "--port", board.url).json
    assert trained["state_sha256"] == simulated["state_sha256"]
    assert trained["accuracy_before"] == simulated["accuracy_before"] > 0.3


def test_samples_are_drawn_alike_where_there_are_many(
    model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load(model)
    split = load_data(graph, images)
    assert len(split.train) > MOST_FOR_A_CLASS * 10
    monkeypatch.setattr("mcutrain.runs.head_start.MOST_FOR_A_CLASS", 2)
    ours = head_start_of("prototypes", graph, split, 10, seed=1)
    few = mcutrain.data.Split(split.train.drawn(20, 1), split.test)
    theirs = head_start_of("prototypes", graph, few, 10)
    assert ours is not None
    assert theirs is not None
    np.testing.assert_array_equal(ours.w, theirs.w)


def test_a_classifier_that_stays_is_refused_before_a_scheme_is_chosen(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Choosing, "compared", None)
    kept = run("simulate", model, "--data", images, "--head-start", "prototypes")
    assert kept.sentence.startswith("the model's own classifier stays")


def test_what_cannot_be_is_a_sentence(run: Run, model: Path, images: Path) -> None:
    missing = run("generate", model, *START, "-o", "project")
    assert missing.code == 2
    assert "prototypes are means of samples: give --data, too" in _words(missing.err)
    useless = run("generate", model, "--scheme", "head", "--data", images, "-o", "project")
    assert useless.code == 2
    assert "for --head-start prototypes" in _words(useless.err)
    front = run("generate", model, *START, "--part", "front", "-o", "front.tflite")
    assert "a front is a model file, not a project" in _words(front.err)
    with pytest.raises(ArgumentError, match="give data, too"):
        mcutrain.generate(model, "project", classes=10, head_start="prototypes")
    with pytest.raises(ArgumentError, match="data is read for scheme auto"):
        mcutrain.generate(model, "project", "head", classes=10, data=images)


def _words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.slow
def test_imprint_is_of_a_project_that_was_asked_for_it(run: Run, model: Path, images: Path) -> None:
    assert (
        run("generate", model, "--classes", 10, "--imprint", "--data", images, "-o", "a").code == 0
    )
    known = ("generate", model, "--classes", 10, "--imprint", "--data", images, "-o", "known")
    note = "an imprinted class would get zeros, too"
    assert note in _words(run(*known).err)
    assert note not in _words(run(*known, "--head-start", "prototypes").err)
    header = Path("a/src/mct_model.h").read_text()
    assert "#define MCT_IMPRINT_FEATURES 64" in header
    mcutrain.generate(model, "b", classes=10, imprint=True, data=images)
    for name in ("mct_model.c", "mct_imprint.c"):
        assert Path("a/src", name).read_bytes() == Path("b/src", name).read_bytes()
    missing = run("generate", model, "--classes", 10, "--imprint", "-o", "c")
    assert "needs the centre of samples: give --data, too" in _words(missing.err)
    added = ("--add-class", "hat", "--imprint", "--data", images)
    assert run("generate", model, *added, "-o", "c").code == 0
    with pytest.raises(ArgumentError, match="give data, too"):
        mcutrain.generate(model, "c", classes=10, imprint=True)
