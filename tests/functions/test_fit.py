"""From a model and data to a folder: what is in it, and that its commands repeat it."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcutrain_host.manifest import BoardProject
from mcutrain_host.saved import SavedState

import mcutrain
from mcutrain.demo import FLOAT_MODEL as FLOAT
from mcutrain.demo import IMAGES as DATA
from mcutrain.demo import MODEL
from mcutrain.errors import (
    ArgumentError,
    BuildError,
    DataError,
    McutrainError,
    OptionError,
    PlanError,
)
from mcutrain.functions import fitting, simulating, time_left
from mcutrain.functions.fit_readme import Story, readme
from mcutrain.functions.fitting import LEAST_OF_A_CLASS, _length
from mcutrain.functions.listener import Listener
from mcutrain.functions.run_options import FIT_TESTS, DataOptions, FitOptions
from mcutrain.report.folder import read_folder
from mcutrain.runs.watch import Watch
from mcutrain.simulation import Progress, Run
from mcutrain.simulation.range_test import OutOfTime
from tests.cli.conftest import Board, called
from tests.cli.small import write_small
from tests.quant.networks import OnnxNetwork

FILES = {
    *("README.md", "fit.json", "report.html", "report.json", "run.npz", "scheme.toml"),
    *("state.mcts", "train.jsonl", "project", "model.int8.tflite", "trained.tflite", "head.npz"),
    "classes.json",  # T-shirt/top has a slash
}
QUICK = {"epochs": 2, "learning_rate": 0.01, "samples": 60, "test_samples": 40}


class Told(Listener):
    """What was decided and noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []

    def decided(self, line: str) -> None:
        self.lines.append(line)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def doubt(self, text: str) -> None:
        self.notes.append(text)


class Cutting(Told):
    """Presses Ctrl-C after so many steps."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    @contextmanager
    def _cutting(self) -> Iterator[Watch]:
        def training(done: Progress) -> None:
            if done.trained >= self.after:
                raise KeyboardInterrupt

        yield Watch(training=training)

    def running(self, run: Run, title: str, checkpoint: Path | None) -> AbstractContextManager[Any]:
        return self._cutting()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[mcutrain.FitResult, Told]:
    """A float model, for a board."""
    folder, told = tmp_path_factory.mktemp("fit"), Told()
    found = mcutrain.fit(
        FLOAT,
        DATA,
        folder / "out",
        "last:2",
        pixels=(0, 1),
        board="nucleo-f446re",
        seed=3,
        listener=told,
        **QUICK,
    )
    return found, told


@pytest.mark.slow
def test_a_float_model_becomes_a_folder_with_all_of_it(fitted):
    found, told = fitted
    assert {path.name for path in found.folder.iterdir()} == FILES
    assert (found.folder / "project" / "manifest.json").exists()
    assert found.accuracy == found.result.accuracy
    assert found.head is not None
    assert [choice.line for choice in found.choices] == told.lines
    flags = " ".join(choice.flag for choice in found.choices)
    for flag in ("--scheme", "--board", "--sram", "--minutes", "--epochs", "--lr", "--test-share"):
        assert flag in flags
    told_of = {choice.what for choice in found.choices}
    assert told_of == {"model", "data", "scheme", "epochs", "learning rate", "project", "trained"}
    assert json.loads(json.dumps(found.to_dict()))["scheme"] == "last:2"
    assert "last:2" in repr(found.project.plan) or found.result.scheme == "last:2"
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page  # the run's curve
    report = read_folder(found.folder)
    assert report.answers is not None
    counts = np.array(report.answers.counts)
    assert np.trace(counts) / counts.sum() == found.accuracy
    chosen, head = report.comparison
    assert (chosen.accuracies, chosen.scheme) == ((found.accuracy,), "last:2")
    assert (head.accuracies, head.scheme) == ((found.head.accuracy,), "head")
    assert report.usage is not None
    assert chosen.sram_bytes == report.usage.sram_bytes > head.sram_bytes


@pytest.mark.slow
def test_the_commands_of_its_readme_end_with_the_same_bytes(fitted, tmp_path, monkeypatch):
    found, _ = fitted
    text = (found.folder / "README.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("mcutrain ")]
    assert f"They write there, not into {found.folder}." in text
    monkeypatch.chdir(tmp_path)
    parts = [shlex.split(line)[1:] for line in commands]
    assert [part[0] for part in parts] == [
        *("quantize", "simulate", "export", "generate", "build", "flash", "train"),
    ]
    for part in parts[:4]:
        assert called(*part) == 0
    for ours, theirs in (
        ("model.int8.tflite", "by-hand.tflite"),
        ("trained.tflite", "by-hand-trained.tflite"),
        ("project/src/mct_model.c", "by-hand-project/src/mct_model.c"),
    ):
        made = (found.folder / ours).read_bytes().replace(b"model.int8", b"by-hand")
        assert made == Path(theirs).read_bytes().replace(b"model.int8", b"by-hand"), ours


def test_by_hand_a_classifier_of_as_many_classes_as_inputs_is_one(tmp_path, monkeypatch):
    """Without data it would pass for a network that reproduces its input."""
    monkeypatch.chdir(tmp_path)
    net = OnnxNetwork([1, 3])
    net.save(Path("m.onnx"), net.gemm(net.op("Relu", net.gemm("input", 3, 8)), 8, 3))
    x = np.random.default_rng(0).normal(0, 1, (60, 3)).astype(np.float32)
    np.savez("data.npz", x=x, y=x.argmax(axis=1))
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.01, "listener": Told()}
    found = mcutrain.fit("m.onnx", "data.npz", "out", "head", **how)
    text = (found.folder / "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("mcutrain "):
            assert called(*shlex.split(line)[1:]) == 0
    ours, by_hand = (Path(f, "src/mct_model.c") for f in ("out/project", "by-hand-project"))
    assert by_hand.read_bytes() == ours.read_bytes().replace(b"model.int8", b"by-hand")


@pytest.mark.slow
def test_a_call_that_was_interrupted_goes_on_to_the_same_bits(fitted, tmp_path):
    whole, _ = fitted
    asked = {"pixels": (0, 1), "board": "nucleo-f446re", "seed": 3, **QUICK}
    arguments = (FLOAT, DATA, tmp_path / "out", "last:2")
    with pytest.raises(KeyboardInterrupt):
        mcutrain.fit(*arguments, listener=Cutting(70), **asked)
    assert (tmp_path / "out" / "model.int8.tflite").exists()
    assert (tmp_path / "out" / "run.npz").exists()
    found = mcutrain.fit(*arguments, listener=Told(), minutes=3, **asked)  # minutes may differ
    for name in ("trained.tflite", "state.mcts", "scheme.toml"):
        assert (found.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert found.result.steps == whole.result.steps


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"seed": 4}, "--seed (3, now 4)"),
        ({"scheme": "last:3"}, "--scheme (last:2, now last:3)"),
        (
            {"board": None, "sram": 100_000},
            "--board (nucleo-f446re, now none) and another --sram (none, now 100000)",
        ),
        ({"epochs": 1}, f"--epochs ({QUICK['epochs']}, now 1)"),
        (
            {"epochs": 3, "learning_rate": 0.02},
            f"--epochs ({QUICK['epochs']}, now 3) and another --lr (0.01, now 0.02)",
        ),
        ({"samples": 61}, "--samples (60, now 61)"),
        ({"augment": ["flip"]}, "--augment (none, now flip)"),
    ],
)
def test_a_folder_of_another_fit_is_left_alone(fitted, other, named):
    found, _ = fitted
    before = (found.folder / "trained.tflite").read_bytes()
    asked = {"scheme": "last:2", "pixels": (0, 1), "board": "nucleo-f446re", "seed": 3, **QUICK}
    with pytest.raises(ArgumentError, match=f" with another {re.escape(named)}: .* -o"):
        mcutrain.fit(FLOAT, DATA, found.folder, **{**asked, **other})
    assert (found.folder / "trained.tflite").read_bytes() == before


class Counting(Told):
    """What was trained of the head alone."""

    def __init__(self) -> None:
        super().__init__()
        self.head: list[int] = []

    @contextmanager
    def counting(self, title: str) -> Iterator[Any]:
        yield lambda what, done, of: self.head.append(done) if "head" in what else None


@pytest.mark.slow
def test_a_finished_fit_trains_nothing_again_unless_asked_for_more(tmp_path):
    model = write_small(tmp_path)
    first, second, third = Counting(), Counting(), Counting()
    asked = {"scheme": "last:2", "learning_rate": 0.01, "samples": 60, "test_samples": 40}

    def fit(folder: str, epochs: int, listener: Listener) -> mcutrain.FitResult:
        return mcutrain.fit(
            model, DATA, tmp_path / folder, epochs=epochs, listener=listener, **asked
        )

    def steps() -> int:
        return (tmp_path / "out" / "train.jsonl").read_text().count('"event": "step"')

    done = fit("out", 1, first)
    assert (logged := steps()) > 0
    again = fit("out", 1, second)
    assert (len(first.head) > 0, second.head) == (True, [])
    assert steps() == logged
    assert second.lines[0].startswith(f"finished        {done.folder / 'README.md'}: ")
    assert again.accuracy == done.accuracy
    assert again.head.accuracy == done.head.accuracy

    more, whole = fit("out", 3, third), fit("other", 3, Told())
    assert not any(line.startswith("finished") for line in (*first.lines, *third.lines))
    assert third.head[-1] == whole.result.steps == 180
    assert more.trained.read_bytes() == whole.trained.read_bytes()
    assert more.accuracy == whole.accuracy
    assert more.head.accuracy == whole.head.accuracy
    with pytest.raises(ArgumentError, match="another --epochs"):
        fit("out", 2, Told())


def test_somebody_elses_folder_and_a_damaged_note_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ArgumentError, match="did not write"):
        mcutrain.fit(MODEL, DATA, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    own = tmp_path / "own"
    own.mkdir()
    for text in ("{", "[]", "{}", '{"version": 1, "asked": 3}'):
        (own / "fit.json").write_text(text)
        with pytest.raises(ArgumentError, match="damaged"):
            mcutrain.fit(MODEL, DATA, own)


def test_bad_input_is_said_before_a_folder_is_made(tmp_path):
    for wrong, kind in (
        ({"model": tmp_path / "no.tflite"}, McutrainError),
        ({"data": tmp_path / "no"}, DataError),
        ({"model": FLOAT, "class_names": "9,8,7,6,5,4,3,2,1,0"}, McutrainError),
        ({"scheme": "lost:3"}, McutrainError),
        ({"mean": [0.5]}, McutrainError),
        ({"board": "no-board"}, McutrainError),
        ({"augment": ["turn"]}, DataError),
        ({"minutes": 0}, ArgumentError),
        ({"learning_rate": -1}, McutrainError),
        ({"model": DATA, "data": MODEL}, ArgumentError),
        ({"scheme": "last:99"}, McutrainError),
        ({"scheme": "last:2", "sram": 2048}, PlanError),
        ({"scheme": "full", "board": "bbc-microbit"}, PlanError),
    ):
        asked: dict[str, Any] = {"model": MODEL, "data": DATA, "output": tmp_path / "o", **wrong}
        with pytest.raises(kind):
            mcutrain.fit(**asked)
        assert not (tmp_path / "o").exists()


def test_a_folder_that_was_there_is_there_after_bad_input_and_empty(tmp_path):
    own, link = tmp_path / "own", tmp_path / "link"
    own.mkdir()
    link.symlink_to(own)
    for output in (own, link):
        with pytest.raises(DataError, match="does not exist"):
            mcutrain.fit(MODEL, tmp_path / "no", output)
        assert list(own.iterdir()) == []


@pytest.mark.slow
def test_without_a_scheme_the_memory_decides_and_without_epochs_the_time(tmp_path):
    model, told = write_small(tmp_path), Told()
    found = mcutrain.fit(
        model,
        DATA,
        tmp_path / "out",
        sram=60_000,
        minutes=0.02,
        samples=150,
        test_samples=30,
        listener=told,
    )
    plan = found.project.plan.step.plan
    assert plan.sram_bytes <= 60_000
    choices = {choice.what: choice for choice in found.choices}
    assert "60,000" in choices["scheme"].why
    assert int(choices["epochs"].value) >= 1
    assert "library" in choices["project"].why
    saved = SavedState.parse((found.folder / "state.mcts").read_bytes(), "state")
    assert len(saved.raw) >= plan.state_bytes


def test_what_is_trained_is_chosen_for_as_many_epochs_as_there_may_be(tmp_path, monkeypatch):
    asked = []

    def choosing(*_: Any, epochs: int, **__: Any) -> None:
        asked.append(epochs)
        raise DataError("enough")

    monkeypatch.setattr(fitting, "auto_scheme", choosing)
    for more in ({"samples": 800}, {"samples": 50}, {"samples": 50, "epochs": 3}):
        with pytest.raises(DataError, match="enough"):
            mcutrain.fit(MODEL, DATA, tmp_path / "out", listener=Told(), **more)
    assert asked == [50, 100, 3]


@given(
    count=st.integers(1, 50_000),
    tests=st.integers(1, 10_000),
    classes=st.integers(1, 100),
    front=st.floats(0, 0.1),
    tail=st.floats(1e-6, 0.1),
    seconds=st.floats(-10, 3600),
)
def test_a_run_is_as_long_as_the_time_allows(count, tests, classes, front, tail, seconds):
    length, why = _length(count, tests, classes, front, tail, seconds)
    used, most = length.samples or count, fitting._most_epochs(count)

    def takes(epochs: int, samples: int) -> float:
        tested = FitOptions.tests(epochs) * tests
        return (samples + tests) * front + (epochs * samples + tested) * tail

    assert length.seconds == pytest.approx(takes(length.epochs, used))
    assert length.once == pytest.approx((used + tests) * (front + tail))
    assert (length.seconds <= seconds * (1 + 1e-9)) or "longer than the time allows" in why
    assert 1 <= length.epochs <= most
    if length.samples is not None:  # not even one epoch fits
        assert length.epochs == 1
        assert min(LEAST_OF_A_CLASS * classes, count) <= length.samples < count
        assert takes(1, count) > seconds
    elif length.epochs < most:
        assert all(takes(more, count) > seconds for more in range(length.epochs + 1, most + 1))


def test_tests_are_counted_as_a_run_has_them():
    for epochs in range(1, 101):
        settings = FitOptions().simulated(epochs).settings(0)
        tests = 1 + sum(settings.tests_after(epoch) for epoch in range(1, epochs + 1))
        assert FitOptions.tests(epochs) == tests <= 10
        assert tests > min(epochs, FIT_TESTS)


class Passing(Told):
    """Lets time pass: a second for each trial or cost that is told, and some for each step."""

    def __init__(self, step_seconds: float) -> None:
        super().__init__()
        self.now, self.step_seconds, self.trained = 100.0, step_seconds, 0

    def passing(self, *_: object) -> None:
        self.now += 1

    def counting(self, title: str) -> AbstractContextManager[Any]:
        return nullcontext(self.passing)

    def searching(self, before: str = "") -> AbstractContextManager[Any]:
        return nullcontext(self.passing)

    @contextmanager
    def running(self, run: Run, title: str, checkpoint: Path | None) -> Iterator[Watch]:
        def training(at: Progress) -> None:
            self.now += self.step_seconds * (at.trained - self.trained)
            self.trained = at.trained

        yield Watch(training=training)


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """A random network of two layers."""
    net = OnnxNetwork([1, 24])
    net.save(tmp_path / "m.onnx", net.gemm(net.op("Relu", net.gemm("input", 24, 16)), 16, 3))
    mcutrain.quantize(tmp_path / "m.onnx", drawn(150), tmp_path / "m.int8.onnx")
    return tmp_path / "m.int8.onnx"


def drawn(count: int) -> tuple[Any, Any]:
    """Samples of three classes for it."""
    x = np.random.default_rng(0).normal(0, 1, (count, 24)).astype(np.float32)
    return x, np.argmax(x[:, :3], axis=1)


CHOICE, TRIALS, ALONE = "the choice of a scheme", "trials of the learning rate", "the head alone"


@pytest.mark.parametrize(
    ("minutes", "sram", "cut"),
    [
        (60, None, []),
        (2, None, [TRIALS, ALONE]),
        (0.3, None, [CHOICE, TRIALS]),  # it is the head that was chosen
        (0.3, 600, [CHOICE, TRIALS]),
    ],
)
@pytest.mark.slow
def test_all_of_a_fit_stays_within_its_minutes(
    minutes, sram, cut, dense, tmp_path, monkeypatch, fresh_cache
):
    passing = Passing(0.01)
    monkeypatch.setattr(time_left, "clock", lambda: passing.now)
    monkeypatch.setattr(fitting._Fitting, "_timed", lambda *_: (0.0, 0.01))
    how = {"minutes": minutes, "sram": sram, "listener": passing}
    found = mcutrain.fit(dense, drawn(150), tmp_path / "out", **how)
    assert found.seconds <= 60 * minutes
    line = passing.lines[-1]
    assert line.startswith("time ")
    assert f"of {minutes:g} minutes are left" in line
    assert [what for what in (CHOICE, TRIALS, ALONE) if what in line] == cut
    assert ("cut short" in line) is bool(cut)
    assert (found.head is None) is bool(cut)
    (choice,) = (choice for choice in found.choices if choice.what == "scheme")
    assert ("there is no time" in choice.why) is (CHOICE in cut)
    again = mcutrain.fit(dense, drawn(150), tmp_path / "out", **{**how, "minutes": 60})
    assert (again.head is None) is bool(cut)  # nothing is trained again


@given(st.floats(0, 59), st.lists(st.floats(0.01, 20), min_size=1), st.floats(0, 40))
def test_only_what_was_done_between_reports_is_done_again(before, gaps, spare):
    """Compiling, before the first of them, is not."""
    now = [0.0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time_left, "clock", lambda: now[0])
        left = time_left.TimeLeft(60)
        report = left.ending("trials", lambda done: None, spare)
        for i, gap in enumerate((before, *gaps)):
            now[0] += gap
            room = left.left - (gap if i > 1 else 0) - spare
            if abs(room) < 1e-6:
                break
            if room < 0:
                with pytest.raises(OutOfTime):
                    report(max(i - 1, 0))
                break
            report(max(i - 1, 0))


def test_few_samples_are_seen_more_often():
    counts = (5, 400, 800, 2000, 4000)
    found = [_length(count, 10, 4, 0, 1e-6, 60)[0].epochs for count in counts]
    assert found == [100, 100, 50, 20, 20]


def test_the_command_says_every_choice_and_prints_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["fit", MODEL, DATA, "--scheme", "head", "--epochs", "1", "--lr", "0.01"]
    assert called(*arguments, "--samples", "40", "--test-samples", "40") == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(Path("fashion-fit") / "trained.tflite")
    for what in ("model", "data", "scheme", "epochs", "learning rate", "project", "trained"):
        assert f"\n{what} " in f"\n{err}"
    assert fitting.FACTS in {path.name for path in Path("fashion-fit").iterdir()}


@pytest.mark.slow
def test_with_a_port_the_board_trains_to_the_same_state(tmp_path):
    asked: dict[str, Any] = {"board": "native", "scheme": "last:2", "listener": Told(), **QUICK}
    first = mcutrain.fit(MODEL, DATA, tmp_path / "out", **asked)
    mcutrain.build(first.folder / "project", optimize="1")
    board = Board(first.folder / "project", tmp_path)
    try:
        found = mcutrain.fit(MODEL, DATA, tmp_path / "out", port=board.url, **asked)
        again = mcutrain.fit(MODEL, DATA, tmp_path / "out", port=board.url, **asked)
    finally:
        board.cut_power()
    assert found.board is not None
    assert found.board.state.read_bytes() == (found.folder / "state.mcts").read_bytes()
    assert found.board.outcome.position == first.result.steps == 120
    assert again.board is not None
    assert again.board.outcome.position == 120
    assert found.choices[-1].what == "board"
    with pytest.raises(OptionError, match="which board"):
        mcutrain.fit(MODEL, DATA, tmp_path / "other", port=board.url)
    assert not (tmp_path / "other").exists()


def test_the_help_says_that_without_a_port_no_board_is_looked_for(capsys):
    assert called("fit", "--help") == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "no board is looked for" in text
    assert "the only board that answers" not in text


@pytest.mark.slow
def test_a_board_that_ends_elsewhere_is_said(tmp_path, monkeypatch):
    asked: dict[str, Any] = {"board": "native", "scheme": "head", "listener": Told(), **QUICK}
    first = mcutrain.fit(MODEL, DATA, tmp_path / "out", **asked)
    mcutrain.build(first.folder / "project", optimize="1")
    board = Board(first.folder / "project", tmp_path)
    (first.folder / "project" / "trained.mcts").unlink(missing_ok=True)
    real = fitting.train_board
    monkeypatch.setattr(fitting, "train_board", lambda *a, **k: real(*a, **{**k, "seed": 9}))
    try:
        with pytest.raises(BuildError, match="another state"):
            mcutrain.fit(MODEL, DATA, tmp_path / "out", port=board.url, **asked)
    finally:
        board.cut_power()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", "left/right", "red, green"])
def test_its_project_knows_the_names_of_the_data_and_so_does_that_by_hand(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    net = OnnxNetwork([1, 24])
    net.save(tmp_path / "m.onnx", net.gemm("input", 24, 3))
    x = np.random.default_rng(0).normal(0, 1, (105, 24)).astype(np.float32)
    names = np.array(["0", name, "z"])
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(105) % 3, class_names=names)
    quantized = mcutrain.quantize("m.onnx", "d.npz", "m.int8.tflite")
    assert not quantized.graph.class_names
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.01, "board": "nucleo-f446re"}
    with pytest.warns(UserWarning, match="as guessing does"):  # the network is a random one
        found = mcutrain.fit(
            "m.int8.tflite",
            "d.npz",
            "out",
            "head",
            class_names=names.tolist(),
            augment=["noise"],
            **how,
        )
    text = (found.folder / "README.md").read_text(encoding="utf-8")
    commands = [shlex.split(x)[1:] for x in text.splitlines() if x.startswith("mcutrain ")]
    for part in commands:
        assert ("--augment" in part) is (part[0] in {"simulate", "train"})
        if part[0] in {"simulate", "generate"}:
            assert called(*part) == 0
    for project in (found.folder / "project", Path("by-hand-project")):
        assert BoardProject.read(project).manifest.class_names == tuple(names)


@pytest.mark.slow
def test_its_library_takes_pixels_as_they_were_normalized_in_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = mcutrain.fit(FLOAT, DATA, "out", "head", mean=[0.1], std=[0.9], **QUICK)
    text = (found.folder / "README.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("mcutrain ")]
    Path("by-hand.tflite").write_bytes((found.folder / "model.int8.tflite").read_bytes())
    assert called(*next(part for part in commands if part[0] == "generate")) == 0
    ours, theirs = (
        (folder / "src/mct_pixel_codes.c").read_bytes()
        for folder in (found.folder / "project", Path("by-hand-project"))
    )
    assert ours == theirs


@pytest.mark.slow
def test_fewer_samples_than_asked_for_are_those_of_the_command_by_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = fitting._Length(1, 20)
    monkeypatch.setattr(fitting, "_length", lambda *given: (few, "what the time allows"))
    how = {**QUICK, "epochs": None}
    found = mcutrain.fit(MODEL, DATA, "out", "head", listener=Told(), **how)
    assert found.result.steps == 20
    text = (found.folder / "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith(("mcutrain simulate", "mcutrain export")):
            assert called(*shlex.split(line)[1:]) == 0
    assert found.trained.read_bytes() == Path("by-hand-trained.tflite").read_bytes()


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(1, 300))
def test_the_commands_have_all_digits_of_numbers(mean, high):
    story = Story(
        has_targets=False,
        folder=Path("out"),
        model=Path("m.onnx"),
        is_float=True,
        data="images",
        int8=Path("out/model.int8.onnx"),
        trained=Path("out/trained.onnx"),
        rate=0.1,
        epochs=1,
        samples=None,
        board="",
        slots="on",
        seed=0,
        classes="auto",
        project_classes="keep",
        loss="",
        names=(),
        reading=DataOptions(mean=mean, std=mean),
        training=FitOptions(pixels=(0, high)),
        lines=(),
    )
    words = shlex.split(next(x for x in readme(story).splitlines() if " simulate " in x))
    assert [float(x) for x in words[words.index("--mean") + 1].split(",")] == mean
    words = shlex.split(next(x for x in readme(story).splitlines() if " quantize " in x))
    text = words[words.index("--pixels") + 1]
    assert text.startswith("0,")
    assert float(text[2:]) == high


@pytest.mark.slow
def test_what_a_stranger_sees_of_classes_and_rate(tmp_path):
    """A new classifier, the rate before it is used, and that the model only guesses."""
    model, told = write_small(tmp_path), Told()
    with np.load(DATA) as file:
        x, y = file["x_train"][:150], file["y_train"][:150]
    asked: dict[str, Any] = {"scheme": "head", "epochs": 1, "listener": told}
    found = mcutrain.fit(model, (x[y < 3], y[y < 3]), tmp_path / "three", **asked)
    what = [choice.what for choice in found.choices]
    assert what[2:6] == ["classifier", "scheme", "epochs", "learning rate"]
    classifier = found.choices[2]
    assert "3 classes, the model 10" in classifier.why
    assert classifier.flag == "--classes"
    assert not any("guessing" in doubt for doubt in found.doubts)
    named = mcutrain.fit(model, (x[y < 3], y[y < 3]), tmp_path / "named", classes=3, **asked)
    assert "classifier" not in {choice.what for choice in named.choices}

    asked |= {"learning_rate": 1e-6, "scheme": "last:2"}
    wrong = mcutrain.fit(MODEL, (x, (y + 1) % 10), tmp_path / "wrong", **asked)
    (doubt,) = (doubt for doubt in wrong.doubts if "as guessing does" in doubt)
    assert "--class-names" in doubt
    assert "If it never saw them, nothing is wrong" in doubt
    new = mcutrain.fit(MODEL, (x, y % 5), tmp_path / "new", **asked)
    (doubt,) = (doubt for doubt in new.doubts if "as guessing does" in doubt)
    assert "labels do not go with their samples" in doubt
    assert "--class-names" not in doubt
    learnt = mcutrain.fit(MODEL, (x, y % 5), tmp_path / "learnt", **asked | {"learning_rate": 0.01})
    assert learnt.accuracy > 0.5
    assert not any("guessing" in doubt for doubt in learnt.doubts)
    right = mcutrain.fit(MODEL, (x, y), tmp_path / "right", **asked)
    assert right.result.before > 0.5
    assert not any("guessing" in doubt for doubt in right.doubts)


def test_data_without_labels_have_no_classes(tmp_path):
    net = OnnxNetwork([1, 24])
    net.save(tmp_path / "m.onnx", net.gemm(net.op("Relu", net.gemm("input", 24, 5)), 5, 24))
    x = np.random.default_rng(0).normal(0, 1, (40, 24)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    told = Told()
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.01, "listener": told}
    found = mcutrain.fit(tmp_path / "m.onnx", tmp_path / "d.npz", tmp_path / "out", "head", **how)
    assert found.result.loss is not None
    line = next(line for line in told.lines if line.startswith("data "))
    assert "classes" not in line


def test_after_an_interruption_the_command_says_that_it_goes_on(tmp_path, monkeypatch, capsys):
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit", pressed)
    assert called("fit", MODEL, DATA, "-o", tmp_path / "out") == 130
    assert "the same command goes on" in capsys.readouterr().err
    cut = SimpleNamespace(is_interrupted=True)
    found = SimpleNamespace(board=cut, to_dict=dict)
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: found)
    for more in ((), ("--json",)):
        assert called("fit", MODEL, DATA, "-o", tmp_path / "out", *more) == 130
        assert "the same command goes on" in capsys.readouterr().err


def test_data_that_changed_since_is_said_in_words_of_fit(tmp_path):
    arrays = dict(np.load(DATA))
    np.savez(tmp_path / "own.npz", **arrays)
    asked = {"seed": 3, **QUICK}
    arguments = (MODEL, tmp_path / "own.npz", tmp_path / "out", "last:2")
    with pytest.raises(KeyboardInterrupt):
        mcutrain.fit(*arguments, listener=Cutting(32), **asked)
    kept = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert len(kept["samples"]) == 64
    arrays["y_train"] = arrays["y_train"][::-1]
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(ArgumentError, match=r"the data has changed since .*out was begun"):
        mcutrain.fit(*arguments, **asked)
    assert json.loads((tmp_path / "out" / "fit.json").read_text()) == kept


def test_one_interruption_while_the_rate_is_doubted_ends_a_fit(tmp_path, monkeypatch):
    def pressed(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulating.doubtful, "rate_warning", pressed)
    monkeypatch.setattr(fitting, "export", None)  # is not reached
    with pytest.raises(KeyboardInterrupt):
        mcutrain.fit(MODEL, DATA, tmp_path / "out", "last:2", seed=3, **QUICK)
    assert (tmp_path / "out" / "state.mcts").exists()


def test_the_default_folder_of_a_hidden_file_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []

    def opened(path: Path, asked: object) -> None:
        seen.append(path)
        raise ArgumentError("enough")

    monkeypatch.setattr(fitting._Folder, "of", opened)
    for name in (".hidden.onnx", "net.v2.onnx", "..onnx"):
        with pytest.raises(ArgumentError, match="enough"):
            mcutrain.fit(name, DATA)
    assert list(map(str, seen)) == ["hidden-fit", "net-fit", "onnx-fit"]
