"""A tail on a board, and the front of it: the commands as a user calls them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.build import build
from mcutrain_host.saved import HEADER_BYTES, SavedState

from mcutrain.demo import IMAGES, MODEL
from mcutrain.pipeline import load
from tests.cli.conftest import Board, Run

SCHEME = "last:2"
FEW = ("--samples", 20, "--test-samples", 10, "--epochs", 2, "--lr", "0.03")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built tail for this computer."""
    from mcutrain.functions.generating import generate

    folder = tmp_path_factory.mktemp("tail") / "project"
    generate(MODEL, folder, SCHEME, board="native", part="tail")
    build(folder, optimize="-O1")
    return folder


@pytest.fixture
def port(board: Board) -> str:
    return board.url


@pytest.mark.slow
@pytest.mark.parametrize("varied", [(), ("--flip",)])
def test_a_board_learns_from_latents_what_the_whole_network_learns(
    run: Run, project: Path, port: str, tmp_path: Path, varied: tuple[str, ...]
) -> None:
    def state(command: str, *flags: object) -> bytes:
        assert run(command, *flags, *FEW, *varied).code == 0
        content = (tmp_path / "state").read_bytes()
        return SavedState.parse(content, "state").raw[HEADER_BYTES:]

    flags = ("--scheme", SCHEME, "--data", IMAGES, "--save-state", "state")
    expected = state("simulate", MODEL, *flags)
    train = (project, "--port", port, "--fresh", "--state", "state", "--log", "log")
    assert state("train", *train, "--data", IMAGES, "--model", MODEL) == expected
    if not varied:
        assert run("latents", project, MODEL, "--data", IMAGES, "-o", "l.npz").code == 0
        assert state("train", *train, "--data", "l.npz") == expected


def test_latents_are_a_data_set_that_says_what_is_for_the_test(
    run: Run, project: Path, tmp_path: Path
) -> None:
    few = ("--samples", 6, "--test-samples", 4)
    facts = run("latents", project, MODEL, "--data", IMAGES, "-o", "l.npz", *few, "--json").json
    assert facts["latent"] == "block7/add"
    assert (facts["samples"], facts["test_samples"]) == (6, 4)
    with np.load(tmp_path / "l.npz") as file:
        assert file["x_train"].shape == (6, 4, 4, 64)
        assert file["x_train"].dtype == np.int8
        assert file["x_test"].shape == (4, 4, 4, 64)
        assert len(file["names"]) == 10
    assert facts["bytes_per_sample"] == 4 * 4 * 64
    assert facts["bytes_per_sample_before"] == 28 * 28


def test_a_front_is_a_model_file(run: Run, tmp_path: Path) -> None:
    front = ("generate", MODEL, "--scheme", SCHEME, "--part", "front")
    facts = run(*front, "-o", "front.tflite", "--json").json
    assert facts["bytes"] == (tmp_path / "front.tflite").stat().st_size
    graph = load(tmp_path / "front.tflite")
    (made,) = graph.types(graph.outputs)
    assert facts["output"] == {
        "shape": list(made.shape),
        "scale": made.scale,
        "zero_point": made.zero_point,
    }
    shown = run(*front, "-o", "front.onnx").out
    assert "the front up to block7/add" in shown
    assert "int8 4 × 4 × 64, scale 0.0378550664, zero point 9" in shown


def test_a_plan_of_a_tail_says_what_it_takes(run: Run) -> None:
    flags = ("plan", MODEL, "--scheme", SCHEME)
    shown = run(*flags, "--part", "tail").out
    assert "the tail behind block7/add" in shown
    assert "1,024     bytes of a sample for the tail, int8 4 × 4 × 64" in shown
    whole, tail = (run(*flags, *part, "--json").json for part in ((), ("--part", "tail")))
    assert (whole["begins_with"], tail["begins_with"]) == (None, "block7/add")
    assert tail["constant_bytes"] < whole["constant_bytes"]
    named = run(*flags, "--part", "tail", "--latent", "block3/depthwise", "--json").json
    assert named["begins_with"] == "block3/depthwise"
    assert tail["constant_bytes"] < named["constant_bytes"] < whole["constant_bytes"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--part", "front", "-o", "front"), "front must end with .tflite or .onnx"),
        (("--part", "front", "-o", "f.onnx", "--board", "native"), "a model file, for no board"),
        (("--part", "front", "-o", "f.onnx", "--slots", "off"), "a model file, for no board"),
        *(
            (("--part", "front", "-o", "f.onnx", *flag), f"for {flag[0]}: a front is a model file,")
            for flag in (
                ("--remember", "4"),
                ("--prefix", "my"),
                ("--class-names", "a,b"),
                ("--mean", "0", "--std", "1"),
                ("--std", "1"),
            )
        ),
        (("--part", "tail", "-o", "p", "--latent", "no"), "cannot begin with 'no': give one of "),
        (("--part", "tail", "-o", "p", "--mean", "0", "--std", "1"), "mean and std are of pixels"),
        (("--remember", "4", "-o", "p", "--scheme", "full"), "--remember keeps latents, and no "),
        (("--part", "tail", "-o", "p", "--scheme", "full"), "can begin behind the input"),
    ],
)
def test_a_part_that_cannot_be_is_a_sentence_and_nothing_is_written(
    run: Run, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    outcome = run("generate", MODEL, "--scheme", SCHEME, *flags)
    assert outcome.code == 2
    assert sentence in " ".join(outcome.err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_what_is_no_tail_of_the_model_is_a_sentence(
    run: Run, project: Path, port: str, tmp_path: Path
) -> None:
    other = ("generate", MODEL, "--scheme", SCHEME, "--classes", 4)
    assert run(*other, "-o", "whole").code == 0
    latents = ("--data", IMAGES, "-o", "l.npz")
    assert "it holds the whole network" in run("latents", "whole", MODEL, *latents).sentence
    assert "is no generated project" in run("latents", "nowhere", MODEL, *latents).sentence
    front = ("generate", MODEL, "--scheme", "last:1", "--part", "tail", "-o", "other")
    assert run(*front).code == 0
    text = (tmp_path / "other" / "manifest.json").read_text(encoding="utf-8")
    found = (project / "manifest.json").read_text(encoding="utf-8")
    hashes = [line for line in (*text.split("\n"), *found.split("\n")) if '"model_hash"' in line]
    (tmp_path / "other" / "manifest.json").write_text(text.replace(*hashes), encoding="utf-8")
    assert "is no tail of" in run("latents", "other", MODEL, *latents).sentence
    foreign = found.replace("block7/add", "another/add")
    (tmp_path / "other" / "manifest.json").write_text(foreign, encoding="utf-8")
    sentence = run("latents", "other", MODEL, *latents).sentence
    assert "begins with 'another/add', which is no place to cut this model" in sentence
    assert not (tmp_path / "l.npz").exists()
    train = ("train", project, "--port", port, "--state", "state", "--log", "log", *FEW)
    pixels = run(*train, "--data", IMAGES)
    assert (
        "a tail begins with block7/add, int8 (4, 4, 64), but the data is uint8 (28, 28"
        in pixels.sentence
    )
    folder = tmp_path / "images" / "coat"
    folder.mkdir(parents=True)
    (folder / "one.png").write_bytes(b"")
    read = run(*train, "--data", tmp_path / "images").sentence
    assert "is a tail and takes latents of that shape" in read
    assert "train with --model, whose front" in read
    assert not (tmp_path / "state").exists()
    assert run("latents", project, MODEL, *latents, "--samples", 4).code == 0
    flipped = run(*train[:-8], "--data", "l.npz", "--lr", "0.03", "--flip")
    assert "augmentation varies samples, but the data of a tail are latents" in flipped.sentence
