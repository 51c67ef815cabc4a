"""From a model and data to a folder with all that came of it: one call, every choice named."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import BoardProject

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.cost.instructions import estimate
from mcutrain.data import Data, Split, is_path
from mcutrain.errors import (
    ArgumentError,
    BuildError,
    DataError,
    McutrainError,
    ModelError,
    OptionError,
    PlanError,
)
from mcutrain.experiments.planner import Budget
from mcutrain.experiments.rows import PlannedRow
from mcutrain.formats import SUFFIXES, read_float, saying_order
from mcutrain.functions.automatic import AUTO, auto_scheme
from mcutrain.functions.board_options import OptionalLine
from mcutrain.functions.board_training import BoardRun, train_board
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.describing import ModelInfo, info
from mcutrain.functions.files import check_writable_folder, replace_file, writing
from mcutrain.functions.firmware import answers, build, flash
from mcutrain.functions.fit_readme import NAMES, Story, is_list, readme
from mcutrain.functions.generating import Generated, generate
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Done, Listener, Progress
from mcutrain.functions.models import export
from mcutrain.functions.options import Classes, MemoryOptions, PlanOptions, SimulatedRequest
from mcutrain.functions.pixel_guess import FEWEST, SAMPLES, Taking, Tried, guess_pixels
from mcutrain.functions.planning import plan
from mcutrain.functions.preparing import HEAD, Asked, with_frontend
from mcutrain.functions.quantize_options import InputOptions
from mcutrain.functions.quantizing import quantize
from mcutrain.functions.run_options import (
    BackendOptions,
    DataOptions,
    FitOptions,
    KeptOptions,
    ShareOptions,
    SimulationOptions,
)
from mcutrain.functions.simulating import Learnt, Simulation
from mcutrain.functions.time_left import TimeLeft
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep, load
from mcutrain.pipeline.losses import Fitted, choose_loss, fit_to_data
from mcutrain.quant import told_apart
from mcutrain.report.answers import answers_of, predictions_of
from mcutrain.report.collect import collect, curve_of, resolved_scheme
from mcutrain.report.content import Report
from mcutrain.report.folder import read_folder
from mcutrain.report.learning import Compared
from mcutrain.report.write import draw
from mcutrain.report.write import write as write_report
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.watch import Watch
from mcutrain.shown import Record, Shown, percent
from mcutrain.simulation import check_can_build
from mcutrain.simulation.range_test import OutOfTime
from mcutrain.simulation.samples import content_of
from mcutrain.sparse import UpdateScheme, as_scheme, find_head

FACTS = "fit.json"
VERSION = 1
CHECKPOINT, LOG, STATE, SCHEME, PROJECT, HEAD_CHECKPOINT = (
    *("run.npz", "train.jsonl", "state.mcts", "scheme.toml"),
    *("project", "head.npz"),
)
MOST_EPOCHS, FEW_STEPS, MOST_OF_FEW = 20, 40_000, 100
"""More epochs than MOST_EPOCHS until FEW_STEPS, at most MOST_OF_FEW. A new classifier of 717 turned
digits, with all layers behind it, ends 3 points higher after 60 epochs than after 20."""
TIMED_SAMPLES, TIMED_EPOCHS, TIMED_RATE = 64, 4, 1e-4
"""Of the runs that say how long a step takes; nothing is kept of what they learn."""
FOR_CHOOSING, FOR_STEPS, FOR_TRIALS = 0.4, 0.6, 0.6
"""Shares of the time that is left then: of all for choosing what to train, of what that leaves for
the run with its tests, of what is beside the run and the end for trials of its rate. What they
leave is for the head alone, to compare."""
LEAST_FOR_STEPS = 0.05
"""Share of the minutes that the run may take even if nothing is left: all else is done for it."""
FOR_A_CHECK = 0.1
"""Share of the time for trying whether a float model takes the pixels that were said."""
FOR_THE_END = 0.1
"""Share of the minutes for all that comes after training: files, project, report."""
FEW_TESTS = 20
GUESSING = 1.2
"""Times the share of the most frequent class: so much may be guessed by chance."""
LEAST_OF_A_CLASS = 5
"""So many samples of each class are trained on, however long that takes."""


@dataclass(frozen=True)
class FitChoice:
    """Something that was decided. flag: of the command line, to decide it otherwise."""

    what: str
    value: str
    why: str
    flag: str = ""

    @property
    def line(self) -> str:
        """All of it as a line."""
        other = f" ({self.flag})" if self.flag else ""
        return f"{self.what:<15} {self.value}{': ' if self.why else ''}{self.why}{other}"


@dataclass(frozen=True, repr=False)
class FitResult(Shown):
    """What `fit` did.

    folder: where all of it is. trained: the trained model's file in it. result: of the run; head:
    of the head alone with the same samples and epochs, None where the run trained just that, or
    where no time was left for it.
    choices: what was decided, why, and which flag decides it otherwise. seconds: in all. board: the
    same run on the board, if a port was given; it ends with the same state.
    """

    folder: Path
    trained: Path
    result: SimulationResult
    head: SimulationResult | None
    choices: tuple[FitChoice, ...]
    project: Generated
    seconds: float
    doubts: tuple[str, ...] = ()
    board: BoardRun | None = None

    @property
    def accuracy(self) -> float:
        """Accuracy of the trained model on the test samples."""
        return self.result.accuracy

    def summary(self) -> str:
        """Return a line that describes it."""
        beside = "" if self.head is None else f" (head alone: {_score(self.head)})"
        return f"{self.result.summary()}{beside}; {self.folder}"

    def records(self) -> list[Record]:
        """Every choice."""
        return [asdict(choice) for choice in self.choices]

    def to_dict(self) -> Record:
        """As `mcutrain fit --json` prints it."""
        return {
            "folder": str(self.folder),
            "trained": str(self.trained),
            "scheme": self.result.scheme,
            "run": self.result.to_dict(),
            "head": None if self.head is None else self.head.to_dict(),
            "choices": self.records(),
            "project": self.project.to_dict(),
            "seconds": self.seconds,
            "doubts": list(self.doubts),
            "board": None if self.board is None else self.board.to_dict(),
        }


@with_keywords
@checked
def fit(
    model: PathLike,
    data: Data,
    output: PathLike | None = None,
    scheme: PathLike | None = None,
    *,
    classes: Classes = "auto",
    training: FitOptions = FitOptions(),
    hardware: MemoryOptions = MemoryOptions(),
    reading: DataOptions = DataOptions(),
    line: OptionalLine = OptionalLine(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> FitResult:
    """Do all of it: quantize if need be, choose scheme, epochs and rate, train, write a folder.

    The folder gets the int8 model, the trained one, the scheme, the run's checkpoint, log and
    state, and a C project (a board's firmware, else a library). Its README.md has the commands that
    would do each part by hand. Every choice is told as a line that names the flag to change it. The
    same call goes on where an earlier one was interrupted. Fields of training, hardware and reading
    are keywords, too; mcutrain.functions.run_options explains each.

    model: a float or int8 file. data: as `simulate` takes it. output: the folder; MODEL-fit by
    default. scheme: what to train; by default what suits the memory. training: minutes, how long it
    may take on this computer, unless epochs are given: what does not fit is left out, and said.
    hardware: board, or bytes of sram. line: with the board's port the firmware is built and
    flashed, and the same run trains the board, which must end with the same state.

    Raises ArgumentError where the folder holds something else; ModelError, DataError, PlanError,
    BuildError, TargetError.

    >>> fit("model.onnx", "images/", board="nucleo-f446re", pixels=(0, 1)).accuracy
    """
    path = Path(model)
    if is_path(data) and is_model_name(data) and not is_model_name(path):
        raise ArgumentError(f"the model comes before the data: give {data}, then {path}")
    name = path.name.lstrip(".").split(".")[0] or "model"
    folder = Path(f"{name}-fit" if output is None else output)
    check_can_build()
    if line.port is not None and hardware.target is None:
        raise OptionError("port", "is a board's: say which board it is, too (--board)")
    asked = _Asked(path, data, scheme, classes, training, hardware, reading, line, seed)
    _ = hardware.memory, reading.normalization  # or a sentence, and so are these
    training.simulated(1).settings(seed)
    if scheme is not None and str(scheme) != AUTO:
        as_scheme(scheme)
    fitting = _Fitting(asked, _Folder.of(folder, asked), listener)
    try:
        return fitting.run()
    except McutrainError:
        fitting.folder.remove_useless()
        raise


def is_model_name(path: PathLike) -> bool:
    """Whether a path ends as a model's file."""
    return Path(path).suffix.lower() in SUFFIXES


@dataclass(frozen=True)
class _Asked:
    model: Path
    data: Data
    scheme: PathLike | None
    classes: int | str
    training: FitOptions
    hardware: MemoryOptions
    reading: DataOptions
    line: OptionalLine
    seed: int

    @property
    def facts(self) -> dict[str, Any]:
        """What must be the same for a call that goes on; minutes may differ."""
        target = self.hardware.target
        training = {k: v for k, v in asdict(self.training).items() if k != "minutes"}
        found: dict[str, Any] = json.loads(  # as it is read again
            json.dumps(
                {
                    "model": hashlib.sha256(_content(self.model)).hexdigest(),
                    "data": str(self.data) if is_path(self.data) else "arrays",
                    "scheme": None if self.scheme is None else str(self.scheme),
                    "classes": self.classes,
                    "training": training,
                    "board": None if target is None else target.name,
                    "sram": self.hardware.sram,
                    "reading": asdict(self.reading),
                    "seed": self.seed,
                },
                default=str,
            )
        )
        return found


def _has_more_epochs(own: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether what is asked is what was finished, with more epochs."""
    earlier, length, epochs = facts["asked"], facts.get("length"), own["training"]["epochs"]
    if not facts.get("is_finished") or not isinstance(length, dict) or epochs is None:
        return False
    training = {**earlier.get("training", {}), "epochs": epochs}
    return {**earlier, "training": training} == own and epochs > length["epochs"]


FLAGS = {"learning_rate": "lr"}
"""Of options that a flag calls otherwise."""


def _differing(own: dict[str, Any], earlier: dict[str, Any]) -> Iterator[str]:
    """Say what is asked otherwise than before: "another --lr (0.01, now 0.02)"."""
    for key, value in own.items():
        before = earlier.get(key)
        if isinstance(value, dict):  # options, each a flag
            yield from _differing(value, before if isinstance(before, dict) else {})
        elif before != value and key == "model":
            yield "another model"
        elif before != value:
            name = FLAGS.get(key, key).replace("_", "-")
            flag = name if key == "data" else f"--{name}"
            yield f"another {flag} ({_given(before)}, now {_given(value)})"


def _given(value: Any) -> str:
    """Return an option's value as a flag has it."""
    if value in (None, "", []):
        return "none"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _content(model: Path) -> bytes:
    try:
        return model.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {model}: {error.strerror or error}") from error


@dataclass
class _Folder:
    """The folder, and what its fit.json says was done so far.

    is_new: if all that is in it is of this call. is_made: if this call made the folder, too.
    """

    path: Path
    facts: dict[str, Any]
    is_new: bool = False
    is_made: bool = False

    @classmethod
    def of(cls, path: Path, asked: _Asked) -> _Folder:
        """Open it, or make it. Raises ArgumentError where it holds something else."""
        own = asked.facts
        check_writable_folder(path)
        mark = path / FACTS
        if not mark.exists():
            if path.exists() and any(path.iterdir()):
                raise ArgumentError(
                    f"{path} holds files that `mcutrain fit` did not write: name another folder "
                    "with -o"
                )
            is_made = not path.exists()
            with writing(path):
                path.mkdir(parents=True, exist_ok=True)
            found = cls(path, {"version": VERSION, "asked": own}, is_new=True, is_made=is_made)
            found.keep()
            return found
        try:
            facts = json.loads(mark.read_text(encoding="utf-8"))
            earlier = dict(facts["asked"])
            same_version = facts["version"] == VERSION
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArgumentError(
                f"{mark} is damaged: remove {path}, or name another folder with -o"
            ) from error
        if not same_version:
            raise ArgumentError(f"{mark} is of another version: name another folder with -o")
        if _has_more_epochs(own, facts):
            for name in (CHECKPOINT, HEAD_CHECKPOINT, LOG):
                (path / name).unlink(missing_ok=True)
            facts |= {"asked": own, "length": None, "is_finished": False}
            earlier = own
        differing = list(_differing(own, earlier))
        if differing:
            raise ArgumentError(
                f"{path} was made with {' and '.join(differing)}: give the same again to go on, "
                "name another folder with -o, or remove this one"
            )
        return cls(path, facts)

    @property
    def is_finished(self) -> bool:
        """Whether an earlier call did all of it."""
        return bool(self.facts.get("is_finished"))

    def check_samples(self, split: Split) -> None:
        """Keep what the samples are. Raises ArgumentError if an earlier call had others."""
        digest = hashlib.sha256(repr(split.names).encode())
        for part in (split.train, split.test, split.validation):
            if part is None:
                continue
            digest.update(content_of(part))
        found, kept = digest.hexdigest(), self.facts.get("samples")
        if kept not in (None, found):
            raise ArgumentError(
                f"the data has changed since {self.path} was begun, and what was learnt there is "
                "of other samples: name another folder with -o, or remove this one"
            )
        if kept is None:
            self.keep(samples=found)

    def remove_useless(self) -> None:
        """Empty it where this call began it, and has neither chosen a scheme nor trained.

        A folder that was there stays. What cannot be removed stays, too: why the call fails is said
        by another error.
        """
        has_work = "scheme" in self.facts or (self.path / CHECKPOINT).exists()
        if not self.is_new or has_work:
            return
        with suppress(OSError):
            for file in self.path.iterdir():
                file.unlink()
            if self.is_made:
                self.path.rmdir()

    def keep(self, **facts: Any) -> None:
        """Write down what is done."""
        self.facts.update(facts)
        text = json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n"
        replace_file(self.path / FACTS, text.encode())


@dataclass
class _Fitting:
    """The parts of a fit, in order."""

    asked: _Asked
    folder: _Folder
    listener: Listener

    def __post_init__(self) -> None:
        training = self.asked.training
        self.time = TimeLeft(math.inf if training.epochs else 60 * training.minutes)
        self.choices: list[FitChoice] = []
        self.doubts: list[str] = []

    def run(self) -> FitResult:
        asked, path = self.asked, self.folder.path
        self._say_finished()
        int8 = self._int8()
        graph = with_frontend(load(int8), asked.reading.frontend)
        split = self._split(graph)
        self._say_classifier(graph, split)
        chosen = self._scheme(graph, split)
        plan = self._plan(graph, split, chosen)
        split = self._drawn(graph, split, plan)
        learnt = self._learn(graph, split, chosen, plan)
        head_only = self._head(graph, split, learnt, plan)
        head = None if head_only is None else head_only.result
        trained = path / f"trained{int8.suffix}"
        export(int8, trained, path / CHECKPOINT)
        replace_file(path / SCHEME, _spelled_out(learnt.step).to_toml().encode())
        project = self._project(int8, learnt)
        write_report(self._report(split, learnt, head_only), path)
        draw(read_folder(path), path)  # with the run's log and the scheme
        self._chose("trained", str(trained), _beside(learnt, head))
        if left := self.time.text:
            early = f"cut short, {', '.join(self.time.cut)}" if self.time.cut else ""
            self._chose("time", f"{left} are left", early, "--minutes")
        doubts = (*self.doubts, *_few_tests(split), *_guesses(learnt), *learnt.doubts)
        for doubt in doubts:
            self.listener.doubt(doubt)
        fitted = FitResult(
            path,
            trained,
            learnt.result,
            head,
            tuple(self.choices),
            project,
            self.time.spent,
            doubts,
        )
        story = self._story(fitted, learnt, int8, plan)
        if not is_list(story.names):
            replace_file(path / NAMES, json.dumps(story.names).encode())
        text = readme(story)
        replace_file(path / "README.md", text.encode())
        self.folder.keep(is_finished=True)
        if asked.line.port is not None:
            board = self._on_board(split, learnt, plan, asked.line.port)
            fitted = replace(fitted, board=board, choices=tuple(self.choices))
        return fitted

    def _say_finished(self) -> None:
        if self.folder.is_finished:
            self._chose(
                "finished",
                str(self.folder.path / "README.md"),
                "says what is where; nothing is trained again, unless you ask for more",
                "--epochs",
            )

    def _story(self, fitted: FitResult, learnt: Learnt, int8: Path, length: _Length) -> Story:
        asked = self.asked
        target, new_classes = asked.hardware.target, _new_classes(learnt)
        return Story(
            folder=fitted.folder,
            model=asked.model,
            is_float=bool(self.folder.facts["int8"]["is_float"]),
            data=str(asked.data) if is_path(asked.data) else "DATA.npz",
            int8=int8,
            trained=fitted.trained,
            rate=learnt.run.settings.learning_rate,
            epochs=length.epochs,
            samples=length.samples,
            board="" if target is None else target.name,
            slots=asked.hardware.slots,
            seed=asked.seed,
            classes=str(asked.classes),
            has_targets=learnt.step.plan.training.takes_targets,
            project_classes="keep" if new_classes is None else str(new_classes),
            loss=_unusual_loss(learnt),
            names=_class_names(learnt),
            reading=asked.reading,
            training=asked.training,
            lines=tuple(choice.line for choice in fitted.choices),
        )

    def _chose(self, what: str, value: str, why: str = "", flag: str = "") -> None:
        choice = FitChoice(what, value, why, flag)
        self.choices.append(choice)
        self.listener.decided(choice.line)

    # ------------------------------------------------------------------------------ model and data

    def _say_frontend(self, int8: Path) -> None:
        """Write the front end that was asked for into the copy of a model that says none.

        What is trained of it then says so, too.
        """
        graph = load(int8)
        asked = with_frontend(graph, self.asked.reading.frontend)
        if asked.input_order != graph.input_order:
            replace_file(int8, saying_order(int8, asked))

    def _int8(self) -> Path:
        """Return the int8 file in the folder: a copy, or what `quantize` made."""
        asked, path = self.asked, self.folder.path
        found = info(asked.model, listener=_Muted(self.listener))
        kept = self.folder.facts.get("int8")
        if kept and (path / kept["file"]).exists():
            if kept.get("pixels"):
                self._take(Taking(**{k: tuple(v) for k, v in kept["pixels"].items()}), kept["by"])
            self._chose("model", kept["value"], kept["why"], kept["flag"])
            return path / str(kept["file"])
        taking, by = None, ""
        if not found.is_float:
            int8 = path / f"model.int8{asked.model.suffix}"
            with writing(int8):
                shutil.copyfile(asked.model, int8)
            self._say_frontend(int8)
            chosen = FitChoice("model", asked.model.name, f"int8, {found.summary()}")
        else:
            if found.refusal:
                raise ModelError(found.refusal)
            taking, by = self._guessed_pixels(found)
            if taking is not None:
                self._take(taking, by)
                asked = self.asked
            int8 = path / f"model.int8.{found.quantized_as.strip('.').lower() or 'tflite'}"
            pixels = InputOptions(
                pixels=asked.training.pixels, mean=asked.reading.mean, std=asked.reading.std
            )
            made = quantize(
                asked.model,
                asked.data,
                int8,
                taking=pixels,
                frontend=asked.reading.frontend,
                stride=asked.reading.stride,
                targets=asked.reading.targets,
                split_by=asked.reading.split_by,
                label_column=asked.reading.label_column,
                seed=asked.seed,
                listener=self.listener,
            )
            why = f"float, now int8 by {made.samples:,} samples, {made.snr_db:.1f} dB at the end"
            chosen = FitChoice("model", asked.model.name, why, "mcutrain quantize has the choices")
        kept = {"value": chosen.value, "why": chosen.why, "flag": chosen.flag}
        kept |= {"pixels": None if taking is None else asdict(taking), "by": by}
        self.folder.keep(int8={"file": int8.name, "is_float": found.is_float, **kept})
        self._chose(chosen.what, chosen.value, chosen.why, chosen.flag)
        return int8

    def _guessed_pixels(self, found: ModelInfo) -> tuple[Taking | None, str]:
        """Return what the model takes for pixels, and why; None where it is said, or needs no word.

        Raises DataError where it has to be said, with what was tried.
        """
        asked = self.asked
        model = read_float(asked.model)
        if model.network.takes_pixels:
            return None, ""
        given = asked.training.pixels or asked.reading.normalization
        listener, samples = _Muted(self.listener), SAMPLES
        if given:  # it is only a check
            spare = (1 - FOR_A_CHECK) * self.time.left
            listener = _InTime(
                self.listener, lambda tell: self.time.ending("the check of pixels", tell, spare)
            )
            samples = FEWEST
        macs, seed = found.total("macs"), asked.seed
        tried = None
        with suppress(OutOfTime):
            tried = guess_pixels(model, asked.data, asked.reading, macs, seed, listener, samples)
        if tried is None:
            return None, ""
        if given:
            self._doubt_pixels(tried)
            return None, ""
        if tried.clear is None:
            name = str(asked.data) if is_path(asked.data) else "the array of samples"
            raise DataError(tried.refusal(name))
        return tried.clear, f"of {tried.samples} training samples the model names {tried.numbers}"

    def _doubt_pixels(self, tried: Tried) -> None:
        """Doubt what was given for pixels, where something else is clearly better."""
        pixels, reading = self.asked.training.pixels, self.asked.reading
        given = Taking(tuple(pixels or ()), tuple(reading.mean or ()), tuple(reading.std or ()))
        is_tried = given in [taking for taking, _ in tried.found]
        if is_tried and tried.clear not in (None, given):
            self.doubts.append(
                f"the model seems to take other numbers for pixels than {given.text}: of "
                f"{tried.samples} training samples it names {tried.numbers}"
            )

    def _take(self, taking: Taking, why: str) -> None:
        """Go on as if it had been asked for."""
        asked = self.asked
        training = replace(asked.training, pixels=taking.pixels or None)
        reading = replace(asked.reading, mean=taking.mean or None, std=taking.std or None)
        self.asked = replace(asked, training=training, reading=reading)
        self._chose("pixels", taking.text, why, "--pixels, --mean and --std")

    def _split(self, graph: Graph) -> Split:
        asked = self.asked
        split = self._read(graph, asked.reading, _Muted(self.listener))
        self.folder.check_samples(split)
        shape = "×".join(str(size) for size in split.train.x.shape[1:])
        value = f"{len(split.train):,} training and {len(split.test):,} test samples of {shape}"
        what = "real targets" if split.has_targets else "classes"
        named = f"{len(split.names)} {what}, {_shortened(split.names)}" if split.is_labelled else ""
        flags = "--targets" if split.has_targets else "--class-names"
        self._chose("data", value, named, f"--test-share, --samples, {flags}")
        return split

    def _say_classifier(self, graph: Graph, split: Split) -> None:
        """Say that the model's classifier is left behind, which is no news where it was asked."""
        if not split.is_labelled or split.has_targets or self.asked.classes != AUTO:
            return
        fitted = self._fitted(graph, split)
        if fitted.classes is None:
            return
        own = told_apart(graph, find_head(graph).node)
        why = f"the data has {fitted.classes} classes, the model {own}; it knows none at first"
        self._chose("classifier", "a new one", why, "--classes")

    def _fitted(self, graph: Graph, split: Split) -> Fitted:
        names = self.asked.reading.class_names or ()
        return fit_to_data(graph, split, self.asked.classes, SimulatedRequest().loss, (), names)

    def _drawn(self, graph: Graph, split: Split, length: _Length) -> Split:
        """Draw what the time allows from all samples, as --samples of a command by hand does.

        Some of those that were asked for would be others.
        """
        reading = self.asked.reading
        if length.samples is None or reading.samples is None:
            return split
        fewer = replace(reading, samples=length.samples)
        return self._read(graph, fewer, _Muted(self.listener))

    def _read(self, graph: Graph, reading: DataOptions, listener: Listener) -> Split:
        asked = self.asked
        keeps_raw = asked.training.simulated(1).settings(asked.seed).varies_raw
        found = (graph, asked.data, reading, Asked(), asked.seed, listener)
        return read_samples(*found, keeps_raw=keeps_raw)

    # ------------------------------------------------------------------------- what, and how long

    def _scheme(self, graph: Graph, split: Split) -> str:
        asked, memory = self.asked, self.asked.hardware.memory
        kept = self.folder.facts.get("scheme")
        if kept:
            self._chose("scheme", kept["value"], kept["why"], "--scheme")
            return str(kept["value"])
        if asked.scheme is not None and str(asked.scheme) != AUTO:
            scheme, why = str(asked.scheme), "as given"
            self._check_fits(graph, split, scheme)
        else:
            with self.listener.counting("choosing what to train") as tell:
                found = auto_scheme(
                    graph,
                    split,
                    classes=asked.classes,
                    hardware=asked.hardware,
                    reading=_only_names(asked.reading),
                    seed=asked.seed,
                    epochs=asked.training.epochs or _most_epochs(len(split.train)),
                    alternatives=False,
                    progress=self.time.ending(
                        "the choice of a scheme", tell, (1 - FOR_CHOOSING) * self.time.left
                    ),
                )
            of = "" if memory.sram_bytes is None else f" of {memory.sram_bytes:,}"
            scheme = found.scheme
            why = f"{found.sram_bytes:,}{of} bytes of SRAM{memory.title}; {found.reason}"
            self.folder.keep(scheme={"value": scheme, "why": why})
        self._chose("scheme", scheme, why, "--scheme, --board, --sram")
        return scheme

    def _check_fits(self, graph: Graph, split: Split, scheme: str) -> None:
        """Raise PlanError, as `plan` does, for more than the memory that was named."""
        hardware = self.asked.hardware
        if hardware.memory.is_usual:
            return
        fitted = self._fitted(graph, split)
        memory = PlanOptions(board=hardware.board, sram=hardware.sram, slots=hardware.slots)
        quiet = _Muted(self.listener)
        try:
            plan(graph, scheme, classes=fitted.classes, hardware=memory, listener=quiet)
        except PlanError as error:
            raise PlanError(f"{error}; without --scheme, what fits is chosen") from error

    def _plan(self, graph: Graph, split: Split, scheme: str) -> _Length:
        """Return how many epochs and samples the time allows."""
        asked = self.asked
        kept = self.folder.facts.get("length")
        if kept:
            length = _Length(**kept)
            self._chose("epochs", f"{length.epochs}", "as this folder's run began", "--epochs")
            return length
        count = len(split.train)
        if asked.training.epochs is not None:
            length, why = _Length(asked.training.epochs, None), "as given"
        else:
            front, tail = self._timed(graph, split, scheme)
            least = LEAST_FOR_STEPS * self.time.seconds
            seconds = max(FOR_STEPS * self.time.left, least)
            classes = max(len(split.names), 1)
            length, why = _length(count, len(split.test), classes, front, tail, seconds)
            why = f"{why}, a step takes {1e3 * tail:.2g} ms here, {self.time.text} are left"
        self.folder.keep(length=asdict(length))
        self._chose("epochs", str(length.epochs), why, "--minutes, --epochs")
        return length

    def _timed(self, graph: Graph, split: Split, scheme: str) -> tuple[float, float]:
        """Return seconds that a sample's frozen layers take, once, and a step of the others."""
        few = replace(
            self.asked.reading,
            samples=min(TIMED_SAMPLES, len(split.train)),
            test_samples=max(1, min(len(split.names) or 1, len(split.test))),
        )
        options = SimulationOptions(epochs=TIMED_EPOCHS, learning_rate=TIMED_RATE, test_every=0)
        quiet = _Muted(self.listener)

        def seconds(latent: str, **more: Any) -> float:
            run = self._simulation(options, few, KeptOptions(), BackendOptions(latent=latent))
            learnt = run.run(graph, split, scheme, self.asked.classes, None, quiet)[0]
            return learnt.result.step_us / 1e6

        with self.listener.searching("seeing how long a step takes"):
            tail = None if self.asked.training.varies else seconds(AUTO)
            whole = seconds("off")
        if tail is None:
            return 0.0, whole
        return max(0.0, whole - tail), tail

    # ------------------------------------------------------------------------------------ training

    @property
    def _end(self) -> float:
        """Seconds that are kept for what comes after training."""
        minutes = self.asked.training.minutes
        return 0.0 if self.asked.training.epochs else FOR_THE_END * 60 * minutes

    def _simulation(
        self,
        options: SimulationOptions,
        reading: DataOptions,
        kept: KeptOptions,
        backend: BackendOptions = BackendOptions(),
    ) -> Simulation:
        return Simulation(
            SimulatedRequest(),
            options,
            ShareOptions(),
            self.asked.hardware,
            reading,
            kept,
            backend,
            "zeros",
            self.asked.seed,
        )

    def _learn(self, graph: Graph, split: Split, scheme: str, length: _Length) -> Learnt:
        path = self.folder.path
        kept = KeptOptions(checkpoint=path / CHECKPOINT, log=path / LOG, save_state=path / STATE)
        reading = replace(_only_names(self.asked.reading), samples=length.samples)
        options = self.asked.training.simulated(length.epochs)
        simulation = self._simulation(options, reading, kept)
        given = self.asked.training.learning_rate

        def tell(rate: float, how: str, doubt: str = "") -> None:
            self._chose("learning rate", f"{rate:.6g}", how, "--lr")
            if doubt:
                self.doubts.append(f"the learning rate {rate:g} was found, but {doubt}")

        if given is not None:
            tell(given, "as given")
        listener: Listener
        if self.folder.is_finished:
            listener = _OnlyRate(self.listener, tell)
        else:
            beside = self.time.left - length.seconds - self._end
            kept_back = length.seconds + self._end + (1 - FOR_TRIALS) * beside
            listener = _WithRate(
                self.listener,
                tell,
                lambda told: self.time.ending("trials of the learning rate", told, kept_back),
            )
        learnt = simulation.run(graph, split, scheme, self.asked.classes, None, listener)[0]
        if learnt.was_interrupted:
            raise KeyboardInterrupt
        return learnt

    def _head(self, graph: Graph, split: Split, learnt: Learnt, length: _Length) -> Learnt | None:
        """Train the head alone, as long, to compare with; None if that is what was trained.

        None where there is no time for all of it, too, also when the same is asked again.
        """
        checkpoint = self.folder.path / HEAD_CHECKPOINT
        was_cut = self.folder.is_finished and not checkpoint.exists()
        if learnt.step.scheme.name == HEAD or was_cut:
            return None
        reading = replace(_only_names(self.asked.reading), samples=length.samples)
        options = self.asked.training.simulated(length.epochs, learning_rate=None, test_every=0)
        kept = KeptOptions(checkpoint=checkpoint)
        simulation = self._simulation(options, reading, kept)
        what, classes = "the head alone to compare with", self.asked.classes
        if self.time.left < length.once + self._end:
            self.time.cut.append(what)
            return None
        with self.listener.counting(what) as tell, suppress(OutOfTime):
            parts = _InParts(self.time.ending(what, tell, self._end))
            return simulation.run(graph, split, HEAD, classes, None, parts)[0]
        checkpoint.unlink(missing_ok=True)
        return None

    def _report(self, split: Split, learnt: Learnt, head: Learnt | None) -> Report:
        """What a step takes, and what is confused, or predicted; of classes both schemes, too."""
        target = self.asked.hardware.target
        report = replace(collect(learnt.step, target), model=self.asked.model.stem)
        regression = learnt.run.regression
        if regression is not None and not regression.targets.parts:
            targets = predictions_of(split.test.names, *learnt.run.predicted())
            curve = curve_of(learnt.result.scheme, learnt.result)
            return replace(report, predictions=targets, curves=(curve,))
        if not learnt.run.learns_classes or split.test.positions or learnt.run.judged is not None:
            return report
        budget = Budget(target, self.asked.hardware.sram)
        lessons = [(learnt, "chosen")] + ([] if head is None else [(head, "head only")])
        rows = tuple(_compared(budget, lesson, name) for lesson, name in lessons)
        found = answers_of(learnt.run.samples.split.test, *learnt.run.answered(), split.test.x)
        return replace(report, comparison=rows, answers=found)

    def _project(self, int8: Path, learnt: Learnt) -> Generated:
        hardware, reading = self.asked.hardware, self.asked.reading
        made = generate(
            int8,
            self.folder.path / PROJECT,
            self.folder.path / CHECKPOINT,
            classes=_new_classes(learnt),
            loss=learnt.asked.options.loss,
            board=hardware.board,
            slots=hardware.slots,
            class_names=_class_names(learnt) or None,
            mean=reading.mean,
            std=reading.std,
            frontend=reading.frontend,
            seed=self.asked.seed,
            listener=_Muted(self.listener),
        )
        what = (
            "a library in C" if made.plan.board is None else f"firmware for {made.plan.board.name}"
        )
        self._chose("project", str(made.folder), what, "--board")
        return made

    def _on_board(self, split: Split, learnt: Learnt, length: _Length, port: str) -> BoardRun:
        """Build, flash where another firmware runs, train. Raises BuildError for another state."""
        asked, folder = self.asked, self.folder.path / PROJECT
        if not BoardProject.read(folder).elf.is_file():
            build(folder, listener=self.listener)
        if not answers(folder, port):
            flash(folder, port=port, listener=self.listener)
        names = asked.reading
        run = train_board(
            folder,
            split,
            line=asked.line,
            learning=asked.training.simulated(
                length.epochs, learning_rate=learnt.run.settings.learning_rate
            ),
            samples=length.samples,
            mean=names.mean,
            std=names.std,
            class_names=names.class_names,
            seed=asked.seed,
            listener=self.listener,
        )
        if run.is_interrupted:
            self._chose("board", asked.line.port or "", "interrupted; the same command goes on")
            return run
        ours = (self.folder.path / STATE).read_bytes()
        if run.state.read_bytes() != ours:
            raise BuildError(
                f"the board ended with another state ({run.state}) than this computer's "
                f"({self.folder.path / STATE}): `mcutrain selftest` finds where they part"
            )
        self._chose("board", port, f"trained, to the same {len(ours):,} bytes", "--port")
        return run


def _most_epochs(count: int) -> int:
    """Return the epochs of so many samples, where the time allows them."""
    return max(MOST_EPOCHS, min(MOST_OF_FEW, -(-FEW_STEPS // count)))


@dataclass(frozen=True)
class _Length:
    """Passes over the samples, of which only some are taken if samples is not None.

    seconds: that the run takes, as far as that is known; once: that a pass over all samples takes,
    training and test, if no layer's results are kept.
    """

    epochs: int
    samples: int | None
    seconds: float = 0.0
    once: float = 0.0


def _length(
    count: int, tests: int, classes: int, front: float, tail: float, seconds: float
) -> tuple[_Length, str]:
    """Return how long a run may be, and why.

    front, tail: seconds of a sample's frozen layers, once, and of a step; a test takes as long.
    seconds: that there are.
    """

    def length(epochs: int, of: int) -> _Length:
        steps = epochs * of + FitOptions.tests(epochs) * tests
        once = (of + tests) * (front + tail)
        drawn = of if of < count else None
        return _Length(epochs, drawn, (of + tests) * front + steps * tail, once)

    most = _most_epochs(count)
    each = [length(epochs, count) for epochs in range(1, most + 1)]
    fitting = [one for one in each if one.seconds <= seconds]
    if fitting and fitting[-1].epochs == most:
        return fitting[-1], f"the most for {count:,} samples"
    if fitting:
        return fitting[-1], "what the time allows"
    spent = length(1, 0).seconds
    least = min(LEAST_OF_A_CLASS * classes, count)
    drawn = max(int((seconds - spent) / (front + tail)), least)
    if drawn >= count:
        return length(1, count), "longer than the time allows"
    why = "what the time allows" if drawn > least else "which is longer than the time allows"
    return length(1, drawn), f"with {drawn:,} of {count:,} samples, {why}"


def _compared(budget: Budget, learnt: Learnt, name: str) -> Compared:
    """A row of the report: what a scheme takes, and learnt."""
    step, result = learnt.step, learnt.result
    row = budget.row(PlannedRow(name, step.scheme), step)
    instructions = sum(estimate(step.plan.training, budget.isa, step.plan.segments).values())
    return replace(
        row,
        accuracies=(result.accuracy,),
        before=(result.before,),
        learning_rate=result.learning_rate,
        instructions=instructions or None,
    )


def _spelled_out(step: TrainingStep) -> UpdateScheme:
    """The step's scheme as a TOML file can say it."""
    return step.scheme if step.scheme.depth_weights == 0 else resolved_scheme(step)


def _new_classes(learnt: Learnt) -> int | None:
    """Return the outputs of a new classifier; None if the model's own was kept."""
    recipe = learnt.step.recipe
    assert recipe is not None, "it was made by `prepare`"
    return recipe.options.classes


def _unusual_loss(learnt: Learnt) -> str:
    """Return the loss, "" if it is what a command without data takes.

    A classifier with as many outputs as inputs may reproduce its input, for all that it knows.
    """
    loss = learnt.asked.options.loss
    has_labels = (
        learnt.run.samples.split.is_labelled and not learnt.step.plan.training.takes_targets
    )
    return loss if has_labels and choose_loss(learnt.step.graph) != loss else ""


def _class_names(learnt: Learnt) -> tuple[str, ...]:
    """Return what the classes are called that are learnt; nothing where none are."""
    training = learnt.step.plan.training
    has_classes = training.has_labels and not training.takes_targets
    return learnt.run.samples.split.names if has_classes else ()


def _only_names(reading: DataOptions) -> DataOptions:
    """What is said of samples that are read already."""
    return DataOptions(mean=reading.mean, std=reading.std, class_names=reading.class_names)


def _shortened(names: tuple[str, ...], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, …"


def _few_tests(split: Split) -> Iterator[str]:
    """Say that a score of so few samples says little."""
    if (count := len(split.test)) < FEW_TESTS:
        share = f"one of them is {100 / count:.0f} points of the score"
        what = "their score is much a matter of chance" if split.has_targets else share
        yield (
            f"there are {count} test samples, so that {what}: bring more samples, or keep more of "
            "them back with --test-share"
        )


def _guesses(learnt: Learnt) -> Iterator[str]:
    """Say that a model only guesses: its own classifier before, and not much better after.

    A wrong scale of the input, or a wrong order of the classes, ends so without any other sign; but
    so does a model that never saw these classes. Of a new classifier, which knows nothing before,
    what it knows after.
    """
    test = learnt.run.samples.split.test
    is_plain = learnt.run.learns_classes and not test.positions and learnt.run.judged is None
    if not is_plain or len(test) < FEW_TESTS:
        return
    often = float(np.bincount(test.y).max() / len(test))
    before, after = learnt.result.before, learnt.result.accuracy
    scaled = "its numbers were scaled otherwise when it learnt them (--pixels, or --mean and --std)"
    if _new_classes(learnt) is not None:
        if after <= GUESSING * often:
            yield (
                f"the model names {percent(after)} of the test samples, as guessing does. Either "
                "what its layers have learnt says nothing of these classes (train more of them, "
                f"with --scheme), or {scaled.replace(' them', '')}, or labels do not go with their "
                "samples: `mcutrain data` shows both"
            )
    elif before <= GUESSING * often and after < (1 + often) / 2:
        yield (
            f"the model named {percent(before)} of the test samples before it was trained, as "
            f"guessing does, and {percent(after)} after that. If it knew these classes, {scaled}, "
            "or its outputs have another order (--class-names). If it never saw them, nothing is "
            "wrong with that: more samples, or more --minutes, are what helps"
        )


def _score(result: SimulationResult) -> str:
    if result.mae is not None:
        return f"MAE {result.mae:.4g}"
    return f"loss {result.loss:.3f}" if result.loss is not None else percent(result.accuracy)


def _beside(learnt: Learnt, head: SimulationResult | None) -> str:
    result = learnt.result
    if result.mae is not None and result.mae_before is not None:
        text = f"MAE {result.mae_before:.4g} before, {result.mae:.4g} after"
        text += "" if result.r2 is None else f", R² {result.r2:.3f}"
        if head is None or head.mae is None:
            return text
        text += f"; the head alone {head.mae:.4g}"
        return f"{text}, which is less: --scheme head" if head.mae < result.mae else text
    if result.loss is not None and result.loss_before is not None:
        text = f"loss {result.loss_before:.3f} before, {result.loss:.3f} after"
        if head is None or head.loss is None:
            return text
        text += f"; the head alone {head.loss:.3f}"
        return f"{text}, which is less: --scheme head" if head.loss < result.loss else text
    text = f"{percent(result.before)} before, {percent(result.accuracy)} after"
    if head is None:
        return text
    text += f"; the head alone {percent(head.accuracy)}"
    if head.accuracy > result.accuracy:
        text += ", which is more: --scheme head"
    return text


class _Muted(Listener):
    """Shows progress, and says nothing: somebody says it later, or nobody needs to know."""

    def __init__(self, to: Listener) -> None:
        self.to = to

    def note(self, text: str) -> None:
        """Leave it."""

    def doubt(self, text: str) -> None:
        """Leave it."""

    def result_says(self, text: str) -> None:
        """Leave it."""

    def found_rate(self, rate: float, found: Any, split: Split | None = None) -> None:
        """Leave it."""

    def reading(self) -> AbstractContextManager[Done]:
        """Show it."""
        return self.to.reading()

    def counting(self, title: str) -> AbstractContextManager[Progress]:
        """Show it."""
        return self.to.counting(title)


class _InTime(_Muted):
    """Shows progress. limited: makes a report of it that ends in time."""

    def __init__(self, to: Listener, limited: Callable[[Progress], Progress]) -> None:
        super().__init__(to)
        self.limited = limited

    @contextmanager
    def counting(self, title: str) -> Iterator[Progress]:
        """Show it."""
        with self.to.counting(title) as tell:
            yield self.limited(tell)


class _OnlyRate(_Muted):
    """Tells the rate, and what is doubtful about it."""

    def __init__(self, to: Listener, tell: Callable[[float, str, str], None]) -> None:
        super().__init__(to)
        self.tell = tell

    def found_rate(self, rate: float, found: Any, split: Split | None = None) -> None:
        """Tell it."""
        self.tell(rate, "by short trials", "" if found is None else found.doubt)


class _WithRate(_OnlyRate):
    """Says notes, too, and shows the run. limited: makes a report of trials that ends in time."""

    def __init__(
        self,
        to: Listener,
        tell: Callable[[float, str, str], None],
        limited: Callable[[Done], Done],
    ) -> None:
        super().__init__(to, tell)
        self.limited = limited

    def note(self, text: str) -> None:
        """Say it."""
        self.to.note(text)

    @contextmanager
    def searching(self, before: str = "") -> Iterator[Done]:
        """Show it."""
        with self.to.searching(before) as tell:
            yield self.limited(tell)

    def placing(self) -> AbstractContextManager[Done]:
        """Show it."""
        return self.to.placing()

    def running(self, run: Any, title: str, checkpoint: Path | None) -> AbstractContextManager[Any]:
        """Show it."""
        return self.to.running(run, title, checkpoint)


class _InParts(_Muted):
    """Shows a run beside the one that matters: how far it is, and nothing that is kept."""

    def __init__(self, tell: Progress) -> None:
        super().__init__(SILENT)
        self.tell = tell

    def searching(self, before: str = "") -> AbstractContextManager[Done]:
        """Show it."""
        return nullcontext(lambda done, of: self.tell("trials of its learning rate", done, of))

    def running(self, run: Any, title: str, checkpoint: Path | None) -> AbstractContextManager[Any]:
        """Show it."""
        return nullcontext(
            Watch(lambda at: self.tell("training the head alone", at.trained, at.total))
        )
