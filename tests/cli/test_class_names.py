"""Names of classes from the model's file to the trained file, in every command that takes data."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcutrain import prepare, quantize, simulate, train
from mcutrain.errors import DataError
from mcutrain.pipeline import load
from tests.cli.conftest import Run
from tests.cli.test_other_losses import trained_on_a_board

WORDS = ("yes", "no", "up", "down", "left", "right")
LIST = ",".join(WORDS)
LEARN = ("--epochs", 1, "--lr", 0.001)
HEAD = ("--scheme", "head", *LEARN)
RNG = np.random.default_rng(0)
TYPICAL = RNG.uniform(0, 1, (len(WORDS) + 1, 6, 6, 1)).astype(np.float32)


def samples_of(place: int, count: int) -> np.ndarray:
    noise = RNG.uniform(0, 1, (count, *TYPICAL.shape[1:])).astype(np.float32)
    return 0.8 * TYPICAL[place] + 0.2 * noise


def data(path: Path, classes: dict[str, int], count: int = 15) -> Path:
    """A class name each, and the typical sample that it looks like."""
    x = np.concatenate([samples_of(place, count) for place in classes.values()])
    np.savez(path, x=x, y=np.repeat(list(classes), count))
    return path


def float_model(path: Path, metadata: dict[str, str]) -> Path:
    """It knows each word by its likeness to the typical sample."""
    typical = TYPICAL[: len(WORDS)].transpose(0, 3, 1, 2).reshape(len(WORDS), -1)
    w = typical - typical.mean(0)
    b = -0.5 * (w * (typical + typical.mean(0))).sum(1) * 0.9
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1, name="fc"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 6, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(WORDS)])
    constants = [numpy_helper.from_array(value, name) for name, value in (("w", w), ("b", b))]
    graph = helper.make_graph(nodes, "words", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with names, one without, and data of all words, some, a new one, and others."""
    folder = tmp_path_factory.mktemp("words")
    ends = np.zeros((1, 6, 6, 1), np.float32), np.ones((1, 6, 6, 1), np.float32)
    calibration = np.concatenate([*ends, *(samples_of(i, 10) for i in range(len(WORDS)))])
    named = float_model(folder / "named.onnx", {"names": str(dict(enumerate(WORDS)))})
    plain = float_model(folder / "plain.onnx", {})
    quantize(named, calibration, folder / "named.tflite")
    quantize(plain, calibration, folder / "plain.tflite")
    places = {word: place for place, word in enumerate(WORDS)}
    data(folder / "all.npz", places)
    data(folder / "some.npz", {word: places[word] for word in ("right", "no", "up")})
    data(folder / "mixed.npz", {"no": 1, "marvin": 6})
    data(folder / "new.npz", {"marvin": 6})
    data(folder / "foreign.npz", {"cat": 0, "dog": 1})
    return folder


@pytest.fixture
def files(made: Path, tmp_path: Path) -> Path:
    """The same in the folder of the test."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def before(run: Run, *arguments: object) -> float:
    found: float = run("simulate", *arguments, *HEAD, "--json").json["accuracy_before"]
    return found


def test_quantize_carries_names_on_and_takes_others(run: Run, files: Path) -> None:
    assert load(files / "named.tflite").class_names == WORDS
    assert load(files / "plain.tflite").class_names == ()
    (files / "labels.txt").write_text("\n".join(WORDS) + "\n")
    given = ("--calibration", "all.npz", "--class-names", "labels.txt", "-o", "given.onnx")
    assert run("quantize", "plain.onnx", *given).code == 0
    assert load(files / "given.onnx").class_names == WORDS
    few = ("--calibration", "all.npz", "--class-names", "a,b", "-o", "few.tflite")
    assert "2 class names but the model has 6" in run("quantize", "plain.onnx", *few).sentence
    assert not (files / "few.tflite").exists()


def test_data_find_their_outputs_by_name(run: Run, files: Path) -> None:
    assert before(run, "named.tflite", "--data", "all.npz") == 1
    assert before(run, "named.tflite", "--data", "some.npz") == 1
    assert before(run, "plain.tflite", "--data", "all.npz", "--class-names", LIST) == 1
    outcome = run("simulate", "named.tflite", "--data", "all.npz", *HEAD)
    assert "output 0" not in outcome.err
    some = run("simulate", "named.tflite", "--data", "some.npz", *HEAD)
    assert "3 classes are among the model's 6, so its classifier stays" in some.err
    assert "no training sample of 3 of the 6 classes" in some.err


def test_a_guessed_order_is_said_and_so_is_one_that_fits_better(run: Run, files: Path) -> None:
    outcome = run("simulate", "plain.tflite", "--data", "all.npz", *HEAD)
    guess, doubt = "output 0 = down, output 1 = left", "output 0 = yes, output 1 = no, output 2"
    assert f"note: {guess}" in outcome.err
    assert "would be with " + doubt in outcome.err
    facts = run("simulate", "plain.tflite", "--data", "all.npz", *HEAD, "--json").json
    assert doubt in facts["warning"]
    new = run("simulate", "plain.tflite", "--data", "some.npz", *HEAD)
    assert "output 0" not in new.err  # its classifier is new, and any order is right


@pytest.mark.parametrize("command", ["simulate", "analyze", "compare"])
def test_unknown_classes_are_refused_everywhere(run: Run, files: Path, command: str) -> None:
    said = run(command, "named.tflite", "--data", "mixed.npz").sentence
    assert "does not know the class 'marvin'" in said
    assert "'yes', 'no', 'up', 'down', 'left', 'right'" in said
    assert "--add-class marvin" in said
    assert "--classes 2" in said


def test_a_class_with_a_blank_is_suggested_as_a_shell_takes_it(run: Run, files: Path) -> None:
    with np.load("mixed.npz") as mixed:
        arrays = {**mixed, "y": np.char.replace(mixed["y"], "marvin", "it's")}
    np.savez("blank.npz", **arrays)
    said = run("simulate", "named.tflite", "--data", "blank.npz").sentence
    (add,) = re.findall(r"(--add-class .*) lets the classifier", said)
    assert shlex.split(add) == ["--add-class", "it's"]


def test_classes_of_which_the_model_knows_none_get_a_new_classifier(run: Run, files: Path) -> None:
    facts = run("simulate", "named.tflite", "--data", "foreign.npz", *HEAD, "--json").json
    assert (facts["classes"], facts["class_names"]) == (2, ["cat", "dog"])
    kept = ("--data", "foreign.npz", "--classes", "keep")
    assert "does not know the classes" in run("simulate", "named.tflite", *kept).sentence
    others = [f"class {i}" for i in range(len(WORDS))]
    as_many = ("--data", data(files / "others.npz", {name: i for i, name in enumerate(others)}))
    assert "does not know the classes" in run("simulate", "named.tflite", *as_many).sentence
    new = run("simulate", "named.tflite", *as_many, "--classes", 6, *HEAD, "--json").json
    assert new["class_names"] == others


def test_someone_who_has_only_the_new_word_can_add_it(run: Run, files: Path) -> None:
    for model in ("named.tflite", "plain.tflite"):
        data = ("--data", "new.npz", "--add-class", "marvin")
        outcome = run("simulate", model, *data, *HEAD)
        assert outcome.code == 0, outcome.err
        assert "no training sample of any of the 6 classes" in outcome.err
        assert "may be forgotten" in outcome.err
    facts = run("simulate", "named.tflite", *data, *HEAD, "--json").json
    assert facts["class_names"] == [*WORDS, "marvin"]
    searched = run("simulate", "named.tflite", *data, "--epochs", 1)
    assert "--lr 0.01\n" in searched.err  # trials would find 50, and all else forgotten
    assert "do not show what is forgotten" in " ".join(searched.err.split())
    mixed = ("--data", "mixed.npz", "--add-class", "marvin")
    assert run("simulate", "named.tflite", *mixed, *HEAD).code == 0
    assert "--class-names" in run("simulate", "plain.tflite", *mixed, *HEAD).sentence


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_exported_files_name_their_classes(run: Run, files: Path, suffix: str) -> None:
    def exported(model: str, *flags: object) -> tuple[str, ...]:
        (files / "c.npz").unlink(missing_ok=True)
        kept = ("--checkpoint", "c.npz", *HEAD)
        assert run("simulate", model, *flags, *kept).code == 0
        assert run("export", model, "--state", "c.npz", "-o", f"t{suffix}").code == 0
        return load(files / f"t{suffix}").class_names

    mixed = ("--data", "mixed.npz", "--add-class", "marvin")
    assert exported("named.tflite", *mixed) == (*WORDS, "marvin")
    assert exported("named.tflite", "--data", "mixed.npz", "--classes", 2) == ("marvin", "no")
    assert exported("plain.tflite", "--data", "all.npz", "--class-names", LIST) == WORDS
    assert exported("plain.tflite", "--data", "some.npz") == ("no", "right", "up")


def test_names_change_no_bit_and_no_checkpoint(run: Run, files: Path) -> None:
    numbers = np.load(files / "all.npz")
    y, split = [WORDS.index(word) for word in numbers["y"]], np.arange(len(numbers["y"])) % 5 == 0
    np.savez(files / "texts.npz", x=numbers["x"], y=numbers["y"], split=split)
    np.savez(files / "numbers.npz", x=numbers["x"], y=y, split=split)
    (files / "same").mkdir()
    shutil.copy(files / "plain.tflite", files / "same/named.tflite")
    flags = (*HEAD, "--json", "--checkpoint", "c.npz")
    first = run("simulate", "named.tflite", "--data", "texts.npz", *flags).json
    second = run("simulate", "same/named.tflite", "--data", "numbers.npz", *flags).json
    assert first["state_sha256"] == second["state_sha256"]


def test_a_project_knows_its_classes_and_gives_them_to_the_exported_file(
    run: Run, files: Path
) -> None:
    assert run("generate", "named.tflite", "--board", "native", "-o", "project").code == 0
    manifest = json.loads((files / "project/manifest.json").read_text())
    assert manifest["class_names"] == list(WORDS)
    assert run("build", "project", "-O", "1").code == 0
    facts = trained_on_a_board(run, "--data", "some.npz", *LEARN, "--json")
    assert (facts["accuracy_before"], facts["warning"]) == (1, None)
    assert run("export", "named.tflite", "--state", "project", "-o", "t.tflite").code == 0
    assert load(files / "t.tflite").class_names == WORDS
    mixed = ("--data", "mixed.npz", "--port", "/dev/null")
    assert "does not know the class 'marvin'" in run("train", "project", *mixed).sentence


def test_a_board_without_names_says_what_it_guesses_and_keeps_what_it_is_told(
    run: Run, files: Path
) -> None:
    assert run("generate", "plain.tflite", "--board", "native", "-o", "project").code == 0
    assert run("build", "project", "-O", "1").code == 0
    guessed = trained_on_a_board(run, "--data", "all.npz", *LEARN, "--json", "--fresh")
    assert "would be with output 0 = yes, output 1 = no" in guessed["warning"]
    flags = ("--data", "all.npz", "--class-names", LIST, "--fresh", "--json")
    told = trained_on_a_board(run, *flags, *LEARN)
    assert (told["accuracy_before"], told["warning"]) == (1, None)
    assert run("export", "plain.tflite", "--state", "project", "-o", "t.onnx").code == 0
    assert load(files / "t.onnx").class_names == WORDS


def test_generate_names_the_old_classes_and_the_added_ones(run: Run, files: Path) -> None:
    flags = ("--class-names", LIST, "--add-class", "marvin", "-o", "project")
    assert run("generate", "plain.tflite", *flags).code == 0
    manifest = json.loads((files / "project/manifest.json").read_text())
    assert manifest["class_names"] == [*WORDS, "marvin"]


@pytest.mark.parametrize("classes", [3, len(WORDS)])
def test_a_new_classifier_has_not_the_names_of_the_old_one(
    run: Run, files: Path, classes: int
) -> None:
    assert run("generate", "named.tflite", "--classes", classes, "-o", "project").code == 0
    manifest = json.loads((files / "project/manifest.json").read_text())
    assert (manifest["classes"], manifest.get("class_names", [])) == (classes, [])


def test_python_takes_the_same_names(files: Path) -> None:
    kept: dict[str, Any] = {"epochs": 1, "learning_rate": 0.001}
    found = simulate(files / "plain.tflite", files / "all.npz", class_names=WORDS, **kept)
    assert found.before == 1
    step = prepare(files / "named.tflite")
    assert train(step, files / "some.npz", **kept).before == 1
    with pytest.warns(UserWarning, match=r"no training sample of 3 of the 6|classifier stays"):
        assert simulate(files / "named.tflite", files / "some.npz", **kept).before == 1
    with pytest.raises(DataError, match=r"does not know the class 'marvin'"):
        train(step, files / "mixed.npz", **kept)
    with pytest.warns(UserWarning, match=r"output 0 = (down|yes)") as said:
        simulate(files / "plain.tflite", files / "all.npz", **kept)
    texts = [str(one.message) for one in said]
    assert any(text.startswith("output 0 = down, output 1 = left") for text in texts)
    assert any("100.0 % would be with output 0 = yes" in text for text in texts)


def test_names_of_outputs_do_not_go_with_episodes(run: Run, files: Path) -> None:
    flags = ("--data", "all.npz", "--ways", 2, "--shots", 1, "--class-names", LIST)
    for command in ("simulate", "compare"):
        outcome = run(command, "named.tflite", *flags)
        assert outcome.code == 2
        assert "--class-names" in outcome.err


def test_what_a_run_before_remembers_keeps_the_old_words(run: Run, files: Path) -> None:
    data(files / "both.npz", {**{word: i for i, word in enumerate(WORDS)}, "marvin": 6})
    add, replay = ("--add-class", "marvin"), ("--replay", 2, "--remember", 60)
    flags = (*add, "--epochs", 1, "--lr", 0.01, *replay)
    kept = ("--checkpoint", "first.npz")
    assert run("simulate", "named.tflite", "--data", "both.npz", *flags, *kept).code == 0
    after = ("--after", "first.npz", "--checkpoint", "second.npz")
    outcome = run("simulate", "named.tflite", "--data", "new.npz", *flags, *after)
    assert outcome.code == 0, outcome.err
    assert "may be forgotten" not in outcome.err
    assert run("export", "named.tflite", "--state", "second.npz", "-o", "t.tflite").code == 0
    assert before(run, "t.tflite", "--data", "both.npz") == 1


def test_folders_of_one_class_do_where_the_model_knows_others(run: Run, files: Path) -> None:
    from PIL import Image

    for name in ("marvin", "no"):
        (files / name / name).mkdir(parents=True)
        for i, x in enumerate(samples_of(6 if name == "marvin" else 1, 6)):
            pixels = (x[..., 0] * 255).astype(np.uint8)
            Image.fromarray(pixels).save(files / name / name / f"{i}.png")
    flags = (*HEAD, "--mean", 0, "--std", 1)
    alone = run("simulate", "plain.tflite", "--data", "marvin", *flags).sentence
    assert "there is one class folder" in alone
    assert (
        run("simulate", "plain.tflite", "--data", "marvin", "--add-class", "marvin", *flags).code
        == 0
    )
    assert before(run, "named.tflite", "--data", "no", "--mean", 0, "--std", 1) == 1
