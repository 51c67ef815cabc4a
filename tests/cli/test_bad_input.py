"""What a user gets wrong ends with one sentence, exit code 2, and nothing half-written."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import MCUTRAIN, Run
from tests.quant.networks import OnnxNetwork

SHAPES = (40, 28, 28)


def save(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    np.savez(path, x=x, y=y)
    return path


def pixels(shape: tuple[int, ...] = SHAPES) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("command", ["info", "verify", "plan"])
def test_a_missing_model_is_named(run: Run, command: str) -> None:
    assert run(command, "no.tflite").sentence == "cannot read no.tflite: No such file or directory"


def test_a_folder_is_no_model(run: Run, tmp_path: Path) -> None:
    folder = f"{tmp_path} is a folder: give a .tflite or .onnx file"
    assert run("info", tmp_path).sentence == folder
    (tmp_path / "m.onnx").touch()
    assert "m.onnx is empty: copy or export it again" in run("info", tmp_path / "m.onnx").sentence


@pytest.mark.parametrize("keep", [100, 3000, 40_000])
def test_a_truncated_model_is_called_corrupt(
    run: Run, model: Path, tmp_path: Path, keep: int
) -> None:
    (tmp_path / "short.tflite").write_bytes(model.read_bytes()[:keep])
    assert "short.tflite" in run("info", "short.tflite").sentence


def test_another_file_is_no_model(run: Run, images: Path) -> None:
    assert run("info", images).sentence.endswith("is neither a .tflite nor an .onnx file")


def test_all_obstacles_of_a_model_are_lines_and_nothing_is_written(
    run: Run, tmp_path: Path
) -> None:
    net = OnnxNetwork([1, 4, 8, 8])
    path = net.save(tmp_path / "model.onnx", net.op("Cos", net.op("Sin", net.op("Sin", "input"))))
    np.save("x.npy", np.zeros((8, 8, 8, 4), np.float32))
    outcome = run("quantize", path, "--calibration", "x.npy", "-o", "out.tflite")
    assert (outcome.code, outcome.out) == (2, "")
    head, *items = outcome.err.splitlines()
    assert head.startswith(f"mcutrain: error: {path}: the model has 2 obstacles, in 3 nodes")
    assert [item.split()[:2] for item in items] == [["•", "Sin"], ["•", "Cos"]]
    assert not Path("out.tflite").exists()


@pytest.mark.shared
def test_a_float_model_is_refused_with_what_to_do(run: Run, shared: Path) -> None:
    sentence = run("plan", shared / "models/ad01_fp32.tflite").sentence
    assert "float model; quantize it to int8 first" in sentence


@pytest.mark.parametrize(
    ("scheme", "says"),
    [
        ("heart", "'heart' is not an update scheme"),
        ("3:1.5", "the share 1.5 of layer 3 is not in 0 to 1"),
        ("99:1", "the model has layers 0 to 24"),
        ("bias:26", "the model has 25 layers before its head"),
        ("none.toml", "cannot read the scheme none.toml"),
    ],
)
def test_a_wrong_scheme_is_explained(run: Run, model: Path, scheme: str, says: str) -> None:
    assert says in run("plan", model, "--scheme", scheme).sentence


def test_a_budget_that_is_too_small_names_the_peak(run: Run, model: Path) -> None:
    sentence = run("plan", model, "--sram", "7K", "--csv", "plan.csv").sentence
    assert "more than the 7,168 there are; most is alive at step" in sentence
    assert not Path("plan.csv").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("plan", "--sram", "many"),
        ("plan", "--gradient-bits", "9"),
        ("plan", "--classes", "some"),
        ("plan", "--accumulate", "0"),
        ("info", "--scheme", "head"),
        ("simulate", "--data", "x.npz", "--lr", "1/0"),
        ("simulate", "--data", "x.npz", "--mean", "0.5"),
        ("simulate", "--data", "x.npz", "--schedule", "linear"),
        ("simulate",),
        ("simulate", "--data", "x.npz", "--epochs", "-1"),
        ("generate",),
    ],
)
def test_a_wrong_flag_is_a_usage_error(run: Run, model: Path, flags: tuple[str, ...]) -> None:
    outcome = run(flags[0], model, *flags[1:])
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Error" in outcome.err


def test_wrong_residual_bits_are_refused(run: Run, model: Path) -> None:
    assert "3 residual bits" in run("plan", model, "--residual-bits", 3).sentence
    assert "biases of 8 bits" in run("plan", model, "--bias-bits", 8).sentence


def test_an_unknown_update_rule_is_refused(run: Run, model: Path) -> None:
    assert "give one of sgd, momentum" in run("plan", model, "--update-rule", "adam").sentence


@pytest.mark.parametrize("classes", [1, 99_999])
def test_a_head_needs_a_sensible_number_of_classes(run: Run, model: Path, classes: int) -> None:
    assert f"not {classes}" in run("plan", model, "--classes", classes).sentence


def test_missing_data_is_named(run: Run, model: Path) -> None:
    sentence = run("simulate", model, "--data", "no.npz").sentence
    assert sentence.startswith("no.npz does not exist")


@pytest.mark.slow
def test_labels_that_the_kept_head_lacks_are_named(run: Run, model: Path, tmp_path: Path) -> None:
    data = save(tmp_path / "d.npz", pixels(), np.arange(40) % 12)
    sentence = run("simulate", model, "--data", data, "--classes", "keep").sentence
    assert "labels go up to 11" in sentence
    assert "10 classes" in sentence


def test_samples_that_are_no_images_are_refused(run: Run, model: Path, tmp_path: Path) -> None:
    data = save(tmp_path / "d.npz", pixels((40, 784)), np.arange(40) % 10)
    assert "no images" in run("simulate", model, "--data", data).sentence


def test_real_values_of_another_shape_are_refused(run: Run, model: Path, tmp_path: Path) -> None:
    x = np.zeros((40, 14, 14, 1), np.float32)
    data = save(tmp_path / "d.npz", x, np.arange(40) % 10)
    sentence = run("simulate", model, "--data", data).sentence
    assert "(14, 14, 1)" in sentence
    assert "(28, 28, 1)" in sentence


def test_a_data_file_that_is_none_is_refused(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 and nothing more")
    assert run("simulate", model, "--data", "d.npz").sentence.startswith("d.npz: ")


def test_more_samples_than_there_are_is_refused(run: Run, model: Path, images: Path) -> None:
    sentence = run("simulate", model, "--data", images, "--samples", 5000).sentence
    assert "5000 samples were asked for but the set has 4000" in sentence


@pytest.mark.parametrize("flag", ["--save-state", "--checkpoint"])
@pytest.mark.parametrize("path", ["no/such/folder/file", "."])
def test_an_unwritable_output_is_found_before_training(
    run: Run, model: Path, images: Path, flag: str, path: str
) -> None:
    sentence = run("simulate", model, "--data", images, flag, path).sentence
    assert sentence.startswith(f"cannot write {path}: ")


def test_a_foreign_folder_is_not_overwritten(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    assert "is no mcutrain project" in run("generate", model, "-o", "mine").sentence
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_folder_is_kept(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("years of work")
    assert "is no mcutrain project" in run("generate", model, "-o", "mine").sentence
    assert (tmp_path / "mine").read_text() == "years of work"


def test_a_file_that_is_no_checkpoint_is_kept(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("years of work")
    few = ("--samples", 20, "--test-samples", 20, "--scheme", "head")
    command = ("simulate", model, "--data", images, *few)
    assert "is no checkpoint of" in run(*command, "--checkpoint", "notes").sentence
    assert (tmp_path / "notes").read_text() == "years of work"


def test_without_the_interpreter_verify_says_what_to_install(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcutrain.oracle import tflite as oracle_tflite

    monkeypatch.setattr(oracle_tflite, "find_interpreter", lambda: None)
    assert "pip install 'mcutrain[oracle]'" in run("verify", model).sentence


GARBAGE = np.random.default_rng(0).bytes(5000)
OUR_WORDS = {
    "garbage": GARBAGE,
    "cut.json": b'{"format": ',
    "word.json": b'{"format": "an',
    "digits.json": b'{"format": ' + b"9" * 5000 + b"}",
    "empty": b"",
    "deep": b"[" * 100_000,
    "deep.toml": b"bias_depth = " + b"[" * 100_000,
    "garbage.toml": GARBAGE,
    "wrong.json": b'{"format":\n 1,, }',
}
PYTHON = (
    *("codec", "Errno", "unpack", "buffer", "Error", "recursion", "expecting", "Expecting"),
    *("pickle", "archive'", "Unidentified", "zip", "onnx.ModelProto", "char "),
)


@pytest.fixture
def foreign(tmp_path: Path, model: Path) -> None:
    """Files that are damaged, or something else than they are given for."""
    for name, content in OUR_WORDS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "cut.tflite").write_bytes(model.read_bytes()[:3000])
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x07" + GARBAGE)
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    for folder, name in (("board", "board.toml"), ("project", "manifest.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(GARBAGE)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "ladder.json").write_bytes(b"[" * 100_000)
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "images" / name / f"{i}.png").write_bytes(GARBAGE)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("info cut.tflite", "cut.tflite is corrupt or truncated: take a whole copy of it"),
        ("info cut.onnx", "cut.onnx is not an ONNX model or is cut short"),
        ("select MODEL --analysis garbage", "the analysis garbage: it is no text in UTF-8"),
        ("select MODEL --analysis cut.json", "the analysis cut.json: it ends too early"),
        ("select MODEL --analysis word.json", "the analysis word.json: it ends too early"),
        ("select MODEL --analysis digits.json", "it has a number of thousands of digits"),
        ("select MODEL --analysis empty", "the analysis empty: it ends too early"),
        ("select MODEL --analysis wrong.json", "wrong.json: there is no JSON at line 2"),
        ("select MODEL --analysis deep", "the analysis deep: it is nested too deeply"),
        ("select MODEL --analysis none", "the analysis none: No such file or directory"),
        ("plan MODEL --scheme garbage.toml", "the scheme garbage.toml: it is no text in UTF-8"),
        ("plan MODEL --scheme deep.toml", "the scheme deep.toml: it is nested too deeply"),
        ("plan MODEL --scheme none.toml", "the scheme none.toml: No such file or directory"),
        ("plan MODEL --board board", "board/board.toml: it is no text in UTF-8"),
        ("plan MODEL --proxies r", "r/ladder.json is no JSON file: it is nested too deeply"),
        ("build project", "project/manifest.json is damaged: it is no text in UTF-8; generate"),
        ("report project", "project/manifest.json is no text in UTF-8"),
        ("verify MODEL --data garbage", "garbage: no sound .npz file (it is damaged, cut short"),
        (
            "verify MODEL --data images",
            "0.png is no readable image: replace or remove it",
        ),
        ("generate MODEL -o p --class-names garbage", "class names: it is no text in UTF-8"),
        ("export MODEL -o a.tflite --state other.npz", "no checkpoint of mcutrain, or a damaged"),
        ("simulate MODEL DATA --checkpoint garbage", "or a damaged one: give another file"),
        ("simulate MODEL DATA --checkpoint empty", "or a damaged one: give another file"),
        ("simulate MODEL DATA --after other.npz", "or a damaged one: give the --checkpoint of the"),
        ("simulate MODEL DATA --after none", "cannot read the checkpoint none: No such file"),
    ],
)
def test_what_cannot_be_read_is_explained_in_our_words(
    run: Run, model: Path, images: Path, foreign: None, command: str, says: str
) -> None:
    data = ["--data", images, "--lr", 0.001, "--samples", 4, "--test-samples", 4]
    words: list[object] = []
    for word in command.split():
        words += {"MODEL": [model], "DATA": data}.get(word, [word])
    if words[0] == "select":
        words += ["--sram", "60K"]
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    sentence = outcome.err.splitlines()[-1].removeprefix("mcutrain: error: ")
    assert says in sentence
    assert not [word for word in PYTHON if word in sentence]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("quantize FLOAT -o no/q.tflite --calibration DATA", "there is no folder no"),
        ("analyze MODEL --data DATA -o no/a.json", "there is no folder no"),
        ("augment MODEL --modules lora:4 -o no/a.tflite", "there is no folder no"),
        ("simulate MODEL --data DATA --log no/x.jsonl", "there is no folder no"),
        ("analyze MODEL --data DATA -o file/a.json", "file is a file, no folder"),
        ("analyze MODEL --data DATA -o .", "it is a folder, give a file"),
        ("select MODEL --analysis none --sram 60K -o file", "file is a file, no folder"),
        ("compare MODEL --data DATA -o file/x", "file is a file, no folder"),
        ("proxies MODEL --data DATA -o file/x", "file is a file, no folder"),
        ("demo -o file/x", "file is a file, no folder"),
        ("generate MODEL -o file/x", "file is a file, no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    run: Run, model: Path, images: Path, tmp_path: Path, command: str, says: str
) -> None:
    (tmp_path / "file").write_text("x")
    named = {"MODEL": model, "DATA": images, "FLOAT": model.parent / "fashion.onnx"}
    sentence = run(*(named.get(word, word) for word in command.split())).sentence
    assert sentence.startswith("cannot write ")
    assert sentence.endswith(says)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_full_disk_behind_the_output_is_called_that(model: Path, flags: Sequence[str]) -> None:
    command = [*MCUTRAIN, "info", str(model), *flags]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "mcutrain: error: standard output: No space left on device\n"
