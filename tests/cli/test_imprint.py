"""`mcutrain imprint`: a board learns a class from a few samples, to the simulation's bits."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.codegen import Interface
from mcutrain.demo import IMAGES, MODEL
from mcutrain.pipeline import load
from mcutrain.runs.head_start import centre_of_samples
from mcutrain.runs.sample_reading import load_data
from mcutrain.simulation import CompiledSimulator
from tests.cli.conftest import Board, Run, done

SHOTS, OWN = 6, 10
REMEMBER = 7
NAMES = ("--add-class", "hat")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imprint") / "project"
    known = tmp_path_factory.mktemp("names") / "names.txt"
    known.write_text("\n".join(load_data(load(MODEL), IMAGES).names))
    flags = (*NAMES, "--class-names", known, "--imprint", "--data", IMAGES, "--remember", REMEMBER)
    done("generate", MODEL, *flags, "--board", "native", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


def hats(count: int) -> np.ndarray:
    """Images of no class that the model knows: bright frames."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 40, (count, 28, 28)).astype(np.uint8)
    x[:, 4:24, 4:24] = 220
    x[:, 9:19, 9:19] = rng.integers(0, 40, (count, 10, 10))
    return x


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file with hats, and something else."""
    x, others = hats(SHOTS), np.zeros((3, 28, 28), np.uint8)
    y = np.repeat([1, 0], [SHOTS, 3])
    np.savez(tmp_path / "hats.npz", x=np.concatenate([x, others]), y=y, names=["dark", "hat"])
    return tmp_path / "hats.npz"


def simulated() -> CompiledSimulator:
    """After the same, by the host's C."""
    graph = load(MODEL)
    step = mcutrain.prepare(graph, "head", added=["hat"])
    centre = centre_of_samples(graph, load_data(graph, IMAGES))
    simulator = CompiledSimulator(step.plan, seed=1, project=step.library(Interface(centre=centre)))
    x = load_data(step, (hats(SHOTS)[..., None], np.zeros(SHOTS, int)), is_partial=True)
    codes = np.concatenate([x.train.x, x.test.x]).astype(np.int16) - 128
    simulator.imprint(codes.astype(np.int8), OWN, OWN)
    return simulator


@pytest.mark.slow
def test_a_board_knows_a_new_class_and_keeps_the_others(
    run: Run, board: Board, folder: Path, data: Path
) -> None:
    line = ("--port", board.url)
    found = run("imprint", folder, "--data", data, "--class", "hat", *line, "--json").json
    assert {k: found[k] for k in ("class", "label", "known", "samples", "replays")} == {
        "class": "hat",
        "label": OWN,
        "known": OWN,
        "samples": SHOTS,
        "replays": 0,
    }
    assert (found["position"], found["save_number"]) == (0, 1)
    pulled = run("pull", folder, *line, "--json").json
    simulator = simulated()
    assert pulled["state_sha256"] == hashlib.sha256(simulator.save()).hexdigest()
    assert (simulator.infer(_codes(hats(40))).argmax(axis=1) == OWN).mean() > 0.9
    assert run("export", MODEL, "--state", folder, "-o", "eleven.tflite").code == 0
    known = load_data(load(MODEL), IMAGES, samples=200, test_samples=200).test
    ours = mcutrain.prepare(load(Path("eleven.tflite"))).simulator().infer(known.x)
    theirs = mcutrain.prepare(load(MODEL)).simulator().infer(known.x)
    np.testing.assert_array_equal(ours[:, :OWN], theirs)
    again = run("imprint", folder, "--data", data, "--class", "hat", *line)
    assert again.out.startswith(
        "hat, output 10, got its weights from 6 samples, beside 10 classes that were known.\n"
    )
    assert again.out.endswith("The board has saved it (save 2).\n")


def test_it_replays_what_it_remembers(run: Run, board: Board, folder: Path, data: Path) -> None:
    line = ("--port", board.url)
    flags = ("--data", IMAGES, "--samples", 10, "--test-samples", 0, "--epochs", 1, "--lr", "0.01")
    assert run("train", folder, *flags, *line, "--json").json["steps"] == 10
    more = ("--replay", 5, "--lr", "0.01", "--json")
    found = run("imprint", folder, "--data", data, "--class", "hat", *line, *more).json
    assert (found["position"], found["replays"]) == (15, 5)
    printed = run("imprint", folder, "--data", data, "--class", "hat", *line, *more[:-1]).out
    assert "Then it learnt from 5 samples that it remembers.\n" in printed


def test_what_cannot_be_is_a_sentence(
    run: Run, board: Board, folder: Path, data: Path, tmp_path: Path
) -> None:
    def said(*flags: object, name: str = "hat") -> str:
        given = ("--data", data, "--class", name, "--port", board.url)
        return run("imprint", folder, *given, *flags).sentence

    assert said(name="cap").startswith("no output is called 'cap': ")
    assert said("--label", 10, name="cap").startswith("the data has the classes dark, hat, and no")
    assert said("--label", 11) == (
        "class 11 cannot be compared with 11 that are known: there are 11, and another one must be "
        "known"
    )
    assert said("--label", 0, "--known", 1).startswith("class 0 cannot be compared with 1")
    plain = tmp_path / "plain"
    done("generate", MODEL, *NAMES, "--board", "native", "-o", plain)
    other = run(
        "imprint", plain, "--data", data, "--class", "hat", "--port", board.url, "--replay", 1
    )
    assert other.sentence.endswith("generate it with --remember N")


def _codes(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.int16) - 128).astype(np.int8)
