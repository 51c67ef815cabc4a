"""A folder is watched, and images are learnt as they arrive: for a Raspberry Pi and its camera."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL
from mcutrain_host.saved import SavedState

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import IMAGE_SUFFIXES, Normalization, read_image
from mcutrain.data.names import folder_of
from mcutrain.errors import ArgumentError, DataError, StateError
from mcutrain.formats.class_names import outputs_of
from mcutrain.functions.files import check_writable_folder, replace_file
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.models import export
from mcutrain.functions.preparing import prepare
from mcutrain.functions.run_options import WatchOptions
from mcutrain.functions.stepping import StepTrainer, trainer
from mcutrain.pipeline import load
from mcutrain.shown import Record, Shown

NOTES, STATE = "watch.json", "state.mcts"
VERSION = 1
ROUND = 16
"""Images after which the state is saved, at the latest."""
SETTLED_SECONDS = 1.0
"""An image that is younger may still be written."""
LOOKED_BACK = 50
"""Images of which the share that was right is told."""
Stop = Callable[[], bool]


@dataclass(frozen=True)
class _LearntImage:
    """An image that was learnt. steps: of all training when that was done."""

    file: str
    label: int
    size: int
    changed: int
    steps: int


@dataclass(frozen=True, repr=False)
class Watched(Shown):
    """What was learnt. model: with the trained weights; None if nothing was ever learnt.

    right: of the images of this call, the share that was told right before they were learnt.
    """

    model: Path | None
    state: Path
    classes: tuple[str, ...]
    images: int
    new_images: int
    steps: int
    right: float
    unreadable: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return a line that describes it."""
        new = f"{self.new_images:,} new images"
        share = f", {100 * self.right:.0f} % told right before" if self.new_images else ""
        return f"{new}{share}; {self.images:,} in all, {self.steps:,} steps: {self.state}"

    def to_dict(self) -> Record:
        """Return it as `mcutrain watch --json` prints it."""
        plain = asdict(self)
        model = None if self.model is None else str(self.model)
        return {**plain, "model": model, "state": str(self.state)}


@with_keywords
@checked
def watch(
    model: PathLike,
    folder: PathLike,
    output: PathLike,
    scheme: PathLike = "head",
    *,
    learning: WatchOptions = WatchOptions(),
    normalization: Normalization | None = None,
    once: bool = False,
    stop: Stop = lambda: False,
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> Watched:
    """Learn from images as they arrive in a folder, until Ctrl-C.

    Each image is one training step, and `replay` steps on images learnt before follow it. What is
    learnt are the bits that a board would learn from the same images in this order. The output
    folder has the state, the trained model, and a list of what was learnt; the same call goes on.
    Nothing is learnt twice, also after a power cut.

    model: an int8 file. folder: a folder of images for each class, such as cat/ and dog/; they may
    be empty. Names are those of the model's outputs, with - for /; without these the folders' in
    their order, and the classifier is new if their number is another. scheme: what to train.
    learning: its fields are keywords, too. normalization: of the pixels, as `train` takes it. once:
    end when nothing new is there. stop: asked between rounds.

    An image that is gone before it is read is passed over, and so is a folder of no class that
    appears later. Raises DataError for a folder without classes, or of a class that the model
    lacks; StateError for an output folder of another model, scheme or seed.

    >>> watch("model.int8.tflite", "inbox/", "learnt/", "last:2", once=True).right
    """
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)
    places = (Path(model), Path(folder), Path(output))
    watched = _WatchedFolder.of(*places, str(scheme), learning, seed, normalization, listener)
    return watched.run(once, stop)


@dataclass
class _WatchedFolder:
    """A folder that is watched. learnt: in the order of learning. others: folders of no class that
    were named already; None before the first look, which refuses them."""

    model: Path
    folder: Path
    output: Path
    facts: dict[str, Any]
    names: tuple[str, ...]
    trainer: StepTrainer
    learning: WatchOptions
    listener: Listener
    rng_seed: int
    learnt: list[_LearntImage]
    steps: int
    kept: tuple[int, int] = (0, 0)
    failed: dict[str, int] = field(default_factory=dict)
    others: set[str] | None = None
    right: deque[bool] = field(default_factory=lambda: deque(maxlen=LOOKED_BACK))
    all_right: list[bool] = field(default_factory=list)

    @staticmethod
    def of(
        model: Path,
        folder: Path,
        output: Path,
        scheme: str,
        learning: WatchOptions,
        seed: int,
        normalization: Normalization | None,
        listener: Listener,
    ) -> _WatchedFolder:
        """Prepare the step, and go on from what the output folder has."""
        graph = load(model)
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}: make one, with a folder for each class")
        if output.resolve() == folder.resolve() or folder.resolve() in output.resolve().parents:
            raise ArgumentError(f"{output} lies in the watched folder: take one beside it")
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        facts = {"model": digest, "scheme": scheme, "seed": seed}
        kept = _notes(output, facts)
        names = tuple(kept["names"]) if kept else graph.class_names or _classes(folder)
        classes = None if outputs_of(graph) == len(names) else len(names)
        step = prepare(graph, scheme, classes=classes, class_names=names)
        if len(step.input_type.shape) != 4 or not step.plan.training.has_labels:
            raise DataError("images are watched for classifiers of images; this model is none")
        learner = trainer(step, seed=seed, normalization=normalization)
        learnt, steps = [_LearntImage(**row) for row in kept["learnt"]] if kept else [], 0
        state = output / STATE
        if kept and state.is_file():
            learner.load(state)
            steps = SavedState.parse(learner.saved, STATE).position(1)
        check_writable_folder(output)
        output.mkdir(parents=True, exist_ok=True)
        # the notes are written before the state: what they have beyond it was not learnt
        learnt = [one for one in learnt if one.steps <= steps]
        return _WatchedFolder(
            *(model, folder, output, facts, names, learner, learning, listener, seed),
            *(learnt, steps, (len(learnt), steps)),
        )

    def run(self, once: bool, stop: Stop) -> Watched:
        """Look, learn, save; until `stop` says so, Ctrl-C, or nothing new is there."""
        before = len(self.learnt)
        try:
            while not stop():
                arrived = list(self._arrived(0.0 if once else SETTLED_SECONDS))
                for first in range(0, len(arrived), ROUND):
                    self._learn(arrived[first : first + ROUND])
                    if stop():
                        break
                if not arrived:
                    if once:
                        break
                    time.sleep(self.learning.every)
        except KeyboardInterrupt:
            del self.learnt[self.kept[0] :]  # what was learnt behind the last save is learnt again
            self.steps = self.kept[1]
            self.listener.note("interrupted; the same command goes on")
        trained = self.output / f"trained{self.model.suffix}"
        if self.learnt:
            export(self.model, trained, self.output / STATE)
        new = len(self.learnt) - before
        return Watched(
            trained if self.learnt else None,
            self.output / STATE,
            self.names,
            len(self.learnt),
            new,
            self.steps,
            float(np.mean(self.all_right)) if self.all_right else 0.0,
            tuple(self.failed),
        )

    def _arrived(self, settled: float) -> Iterator[tuple[Path, int]]:
        """Images that were not learnt, oldest first, with their labels."""
        known = {(one.file, one.size, one.changed) for one in self.learnt}
        found = []
        for place, label in self._places():
            for file in _files(place):
                if file.suffix.lower() not in IMAGE_SUFFIXES or file.name.startswith("."):
                    continue
                about = _about(file)
                if about is None:
                    continue
                name = f"{place.name}/{file.name}"
                if (name, about.st_size, about.st_mtime_ns) in known:
                    continue
                if self.failed.get(name) == about.st_mtime_ns:
                    continue
                if settled and time.time() - about.st_mtime < settled:
                    continue
                found.append((about.st_mtime_ns, name, file, label))
        for _, _, file, label in sorted(found):
            yield file, label

    def _places(self) -> Iterator[tuple[Path, int]]:
        """Folders of classes, with their labels.

        Raises DataError for another folder at the first look; later ones are named and left out.
        """
        known = [folder_of(class_name) for class_name in self.names]
        is_first, self.others = self.others is None, self.others or set()
        for place in sorted(p for p in self.folder.iterdir() if p.is_dir()):
            name = place.name
            if name in known:
                yield place, known.index(name)
            elif not name.startswith(".") and name not in self.others:
                if is_first:
                    raise DataError(
                        f"the folder {name!a} is none of the classes {', '.join(known)}: "
                        "rename it, or give another output folder, which begins with the "
                        "classes of all folders"
                    )
                self.others.add(name)
                self.listener.note(
                    f"left out: the folder {name!a}, which is none of the classes "
                    f"{', '.join(known)}; begin with another output folder to learn it"
                )

    def _learn(self, images: list[tuple[Path, int]]) -> None:
        """One round: learn, then note what, then save the state."""
        for file, label in images:
            self._learn_one(file, label)
        self._save()

    def _save(self) -> None:
        notes = {
            "version": VERSION,
            **self.facts,
            "names": self.names,
            "learnt": [asdict(one) for one in self.learnt],
        }
        replace_file(self.output / NOTES, json.dumps(notes).encode())
        self.trainer.save(self.output / STATE)
        self.kept = (len(self.learnt), self.steps)

    def _learn_one(self, file: Path, label: int) -> None:
        name, about = f"{file.parent.name}/{file.name}", _about(file)
        if about is None:
            return
        try:
            x = self._read(file)
        except DataError as error:
            if _about(file) is None:
                return
            self.failed[name] = about.st_mtime_ns
            self.listener.note(f"left out: {error}")
            return
        rate = self.learning.learning_rate
        outcome = self.trainer.step(x, np.array([label]), rate)
        said = int(outcome.predictions[0])
        self.right.append(said == label)
        self.all_right.append(said == label)
        self.steps += 1 + self._replay(len(self.learnt), rate)
        self.learnt.append(_LearntImage(name, label, about.st_size, about.st_mtime_ns, self.steps))
        taken = "right" if said == label else f"taken for {self.names[said]}"
        self.listener.decided(
            f"{name}: {taken}, then learnt; {sum(self.right)} of the last {len(self.right)} right"
        )

    def _replay(self, known: int, rate: float) -> int:
        """Steps on images learnt before; which, follows from the seed and their number."""
        count = min(self.learning.replay, known)
        rng = np.random.default_rng((self.rng_seed, known))
        done = 0
        for i in rng.integers(0, known, count) if known else ():
            one = self.learnt[int(i)]
            try:
                x = self._read(self.folder / one.file)
            except DataError:
                continue  # gone since: the folder is the user's
            self.trainer.step(x, np.array([one.label]), rate)
            done += 1
        return done

    def _read(self, file: Path) -> Any:
        height, width, channels = self.trainer.prepared.input_type.shape[1:]
        return read_image(file, (height, width, channels))[np.newaxis]


def _files(place: Path) -> list[Path]:
    """Return what a folder has; nothing if it is gone, for it is the user's."""
    try:
        return list(place.iterdir())
    except FileNotFoundError:
        return []


def _about(file: Path) -> os.stat_result | None:
    """Size and time of a file; None if it is gone since it was listed."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _classes(folder: Path) -> tuple[str, ...]:
    """Names of the class folders. Raises DataError for fewer than two."""
    found = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(found) < 2:
        raise DataError(
            f"{folder} has {len(found)} class folders, and the model's outputs have no names: "
            "make a folder for each class first; it may be empty"
        )
    return tuple(found)


def _notes(output: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """What the output folder says of an earlier call. Raises StateError for one of another."""
    path = output / NOTES
    if not path.is_file():
        if (output / STATE).exists():
            raise StateError(f"{output} has a state and no {NOTES}: give another output folder")
        return None
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
        learnt = [_LearntImage(**row) for row in notes["learnt"]]
        sound = notes["version"] == VERSION and all(isinstance(n, str) for n in notes["names"])
        sound = sound and all(isinstance(one.steps, int) for one in learnt)
    except (ValueError, KeyError, TypeError, OSError):
        sound = False
    if not sound:
        raise StateError(f"{path} is damaged: give another output folder")
    for what, value in facts.items():
        if notes[what] != value:
            raise StateError(
                f"{output} was made with another {what}: give the same one, or another folder"
            )
    return dict(notes)
