"""Images that arrive in a folder are learnt once, in order, and to the bits of an own loop."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mcutrain
from mcutrain.data import read_image
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import ArgumentError, DataError, McutrainError, StateError
from mcutrain.formats import write
from mcutrain.functions import folder_watching
from mcutrain.functions.folder_watching import NOTES, STATE
from mcutrain.functions.listener import Listener
from tests.cli.conftest import Run, run

__all__ = ["run"]
RATE, REPLAY = 0.02, 2
QUICK: dict[str, Any] = {"learning_rate": RATE, "replay": REPLAY, "once": True, "seed": 3}


class Told(Listener):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def decided(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Folders of two classes, for a new classifier."""
    folder = tmp_path / "inbox"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
    return folder


def arrive(folder: Path, name: str, number: int, at: int) -> Path:
    """An image of the demo, with a time of its own."""
    with np.load(IMAGES) as file:
        pixels = file["x_test"][number].reshape(28, 28)
    path = folder / name / f"{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    os.utime(path, (at, at))
    return path


def some(folder: Path, first: int, count: int) -> list[tuple[Path, int]]:
    """Images of both classes in turn, oldest first."""
    return [
        (arrive(folder, ("cat", "dog")[i % 2], i, 1_000_000 + i), i % 2)
        for i in range(first, first + count)
    ]


def by_hand(images: list[tuple[Path, int]]) -> bytes:
    """The state of an own loop over the same images."""
    step = mcutrain.prepare(_named_model(images[0][0]), "last:2", classes=2)
    learner = mcutrain.trainer(step, seed=QUICK["seed"])
    read = [read_image(path, (28, 28, 1))[np.newaxis] for path, _ in images]
    for known, (_, label) in enumerate(images):
        learner.step(read[known], [label], RATE)
        rng = np.random.default_rng((QUICK["seed"], known))
        for i in rng.integers(0, known, min(REPLAY, known)) if known else ():
            learner.step(read[i], [images[i][1]], RATE)
    return learner.saved


def _named_model(image: Path) -> Path:
    return image.parents[2] / "m.tflite"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The demo's model without names of its outputs."""
    path = tmp_path / "m.tflite"
    write(replace(mcutrain.load(MODEL), class_names=()), path)
    return path


@pytest.mark.slow
def test_what_arrives_is_learnt_once_and_to_the_bits_of_an_own_loop(
    two: Path, model: Path, tmp_path: Path
) -> None:
    out, told = tmp_path / "out", Told()
    images = some(two, 0, 5)
    first = mcutrain.watch(model, two, out, "last:2", listener=told, **QUICK)
    assert (first.new_images, first.images, first.classes) == (5, 5, ("cat", "dog"))
    images += some(two, 5, 20)
    second = mcutrain.watch(model, two, out, "last:2", **QUICK)
    assert (second.new_images, second.images) == (20, 25)
    assert second.steps == sum(1 + min(REPLAY, known) for known in range(25))
    again = mcutrain.watch(model, two, out, "last:2", **QUICK)
    assert (again.new_images, again.steps) == (0, second.steps)
    wanted = by_hand(images)
    assert (out / STATE).read_bytes()[: len(wanted)] == wanted
    assert sum(" learnt; " in line for line in told.lines) == 5
    assert second.model is not None
    assert len(mcutrain.diff(model, second.model).records()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("failing", ["the notes", "the state"])
def test_nothing_is_lost_or_learnt_twice_when_power_is_cut_between_two_files(
    two: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    out = tmp_path / "out"
    images = some(two, 0, 3)
    mcutrain.watch(model, two, out, "last:2", **QUICK)
    images += some(two, 3, 4)

    def cut(*_: object) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as context:
        if failing == "the notes":
            context.setattr(folder_watching, "replace_file", cut)
        else:
            context.setattr(folder_watching.StepTrainer, "save", cut)
        with pytest.raises(McutrainError, match="power cut"):
            mcutrain.watch(model, two, out, "last:2", **QUICK)
    found = mcutrain.watch(model, two, out, "last:2", **QUICK)
    assert (found.new_images, found.images) == (4, 7)
    wanted = by_hand(images)
    assert (out / STATE).read_bytes()[: len(wanted)] == wanted


@pytest.mark.slow
def test_an_image_that_is_written_or_damaged_waits(two: Path, model: Path, tmp_path: Path) -> None:
    told = Told()
    some(two, 0, 2)
    (two / "cat" / "bad.png").write_bytes(b"no image")
    found = mcutrain.watch(model, two, tmp_path / "out", "head", listener=told, **QUICK)
    assert (found.new_images, found.unreadable) == (2, ("cat/bad.png",))
    assert any("bad.png" in line for line in told.lines)
    looks = iter([False, False, True])  # without --once: too young at the first look
    young = {**QUICK, "once": False, "every": 0.01}
    arrive(two, "dog", 9, 2**31)
    later = mcutrain.watch(
        model, two, tmp_path / "out", "head", stop=lambda: next(looks), listener=told, **young
    )
    assert later.new_images == 0
    shutil.copy(two / "cat" / "0.png", two / "cat" / "bad.png")
    assert mcutrain.watch(model, two, tmp_path / "out", "head", **QUICK).new_images == 2


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before it is looked at", "before it is read", "while it is"])
def test_what_is_gone_when_it_is_its_turn_is_passed_over(
    two: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The folder is the user's, who may clear it up meanwhile."""
    images, told, out = some(two, 0, 4), Told(), tmp_path / "out"
    gone = images.pop(2)[0]
    with monkeypatch.context() as context:
        if when == "before it is looked at":
            listed = folder_watching._files

            def list_and_clear(place: Path) -> list[Path]:
                found = listed(place)
                gone.unlink(missing_ok=True)
                return found

            context.setattr(folder_watching, "_files", list_and_clear)
        elif when == "before it is read":
            told.decided = lambda line: gone.unlink(missing_ok=True)  # type: ignore[method-assign]
        else:
            read = folder_watching.read_image

            def clear_and_read(path: Path, *given: Any) -> Any:
                if path == gone:
                    gone.unlink()
                return read(path, *given)

            context.setattr(folder_watching, "read_image", clear_and_read)
        found = mcutrain.watch(model, two, out, "last:2", listener=told, **QUICK)
    assert (found.new_images, found.unreadable) == (3, ())
    wanted = by_hand(images)
    assert (out / STATE).read_bytes()[: len(wanted)] == wanted
    shutil.rmtree(two / "cat")
    assert mcutrain.watch(model, two, out, "last:2", **QUICK).new_images == 0


def test_a_folder_of_no_class_that_appears_is_named_once(
    two: Path, model: Path, tmp_path: Path
) -> None:
    told, looks = Told(), iter([False] * 9 + [True])
    some(two, 0, 2)

    def stop() -> bool:
        (two / "cow").mkdir(exist_ok=True) if told.lines else None
        if (two / "cow").exists():
            arrive(two, "cow", 5, 1_000_000)
        return next(looks)

    going = {**QUICK, "once": False, "every": 0.01}
    found = mcutrain.watch(model, two, tmp_path / "out", "head", stop=stop, listener=told, **going)
    assert found.new_images == 2
    said = [line for line in told.lines if "left out" in line]
    assert len(said) == 1
    assert "the folder 'cow', which is none of the classes cat, dog" in said[0]


@pytest.mark.slow
def test_the_stop_sign_ends_a_round_that_is_saved(two: Path, model: Path, tmp_path: Path) -> None:
    some(two, 0, 20)
    looks = iter([False, True, True])
    options = {**QUICK, "once": False, "replay": 0}
    found = mcutrain.watch(
        model, two, tmp_path / "out", "head", stop=lambda: next(looks), **options
    )
    assert found.new_images == folder_watching.ROUND
    assert mcutrain.watch(model, two, tmp_path / "out", **{**QUICK, "replay": 0}).images == 20


def test_what_cannot_be_watched_is_said(two: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    wrong: list[tuple[type[McutrainError], str, tuple[object, ...], dict[str, Any]]] = [
        (DataError, "no folder", (model, tmp_path / "nowhere", out), {}),
        (ArgumentError, "beside it", (model, two, two / "out"), {}),
        (ArgumentError, "learning_rate", (model, two, out), {"learning_rate": 0.0}),
        (DataError, "class folders", (model, two / "cat", out), {}),
    ]
    for kind, says, given, more in wrong:
        with pytest.raises(kind, match=says):
            mcutrain.watch(*given, **{**QUICK, **more})  # type: ignore[arg-type]
        assert not out.exists()
    some(two, 0, 2)
    mcutrain.watch(model, two, out, "head", **QUICK)
    for change in ({"scheme": "last:2"}, {"seed": 4}):
        with pytest.raises(StateError, match=f"another {next(iter(change))}"):
            mcutrain.watch(model, two, out, **{**QUICK, **change})
    (two / "cow").mkdir()
    with pytest.raises(DataError, match="'cow' is none of the classes cat, dog"):
        mcutrain.watch(model, two, out, "head", **QUICK)
    (two / "cow").rmdir()
    (out / NOTES).write_text("{}")
    with pytest.raises(StateError, match="damaged"):
        mcutrain.watch(model, two, out, "head", **QUICK)
    (out / NOTES).unlink()
    with pytest.raises(StateError, match="another output folder"):
        mcutrain.watch(model, two, out, "head", **QUICK)


def test_the_command_says_each_image_and_writes_the_model(run: Run, two: Path, model: Path) -> None:
    some(two, 0, 3)
    line = ("watch", model, two, "-o", "learnt", "--once", "--replay", "1")
    outcome = run(*line)
    assert outcome.code == 0, outcome.err
    assert "3 new images" in outcome.out
    assert outcome.err.count("learnt; ") == 3
    assert Path("learnt/trained.tflite").is_file()
    assert run(*line, "--json").json["new_images"] == 0


@pytest.mark.slow
def test_ctrl_c_learns_the_unsaved_round_again(two: Path, model: Path, tmp_path: Path) -> None:
    images = some(two, 0, 20)

    class Interrupting(Listener):
        """Ctrl-C behind image 18, in the second round."""

        def decided(self, line: str) -> None:
            if line.startswith("cat/18"):
                raise KeyboardInterrupt

        def note(self, text: str) -> None:
            assert "interrupted" in text

    out = tmp_path / "out"
    cut = mcutrain.watch(model, two, out, "last:2", listener=Interrupting(), **QUICK)
    assert cut.images == folder_watching.ROUND
    whole = mcutrain.watch(model, two, out, "last:2", **QUICK)
    assert (whole.images, whole.new_images) == (20, 4)
    wanted = by_hand(images)
    assert (out / STATE).read_bytes()[: len(wanted)] == wanted


def test_names_of_the_model_are_those_of_the_folders(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    (inbox / "T-shirt-top").mkdir(parents=True)
    arrive(inbox, "T-shirt-top", 0, 1_000_000)
    names = ("T-shirt/top", *"abcdefghi")
    write(replace(mcutrain.load(MODEL), class_names=names), tmp_path / "m.tflite")
    found = mcutrain.watch(tmp_path / "m.tflite", inbox, tmp_path / "out", **QUICK)
    assert (found.new_images, found.classes) == (1, names)


def test_the_service_of_the_page_is_one(run: Run, tmp_path: Path) -> None:
    """systemd takes the unit, and the command what it says."""
    page = (Path(__file__).parents[2] / "docs" / "boards.md").read_text(encoding="utf-8")
    unit = "[Unit]" + page.partition("```\n[Unit]")[2].partition("```")[0]
    command = unit.partition("ExecStart=")[2].partition("\n")[0].split()
    shutil.copy(MODEL, "model.int8.tflite")
    some(Path("inbox"), 0, 2)
    assert run(*command[1:], "--once").code == 0
    assert Path("learnt", STATE).is_file()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt install systemd")
    program = tmp_path / "mcutrain"
    program.touch(0o755)
    service = tmp_path / "mcutrain.service"
    service.write_text(unit.replace(command[0], str(program)))
    verified = ["systemd-analyze", "verify", str(service)]
    found = subprocess.run(verified, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
