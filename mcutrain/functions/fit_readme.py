"""The README.md of a folder that `fit` wrote: what lies there, and the commands by hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.functions.run_options import DataOptions, FitOptions

NAMES = "classes.json"


def is_list(names: Sequence[str]) -> bool:
    """Whether --class-names can have these names as a list with commas."""
    return all(name == name.strip() != "" and not {",", "/"} & set(name) for name in names)


@dataclass(frozen=True)
class Story:
    """What a README tells. Paths are as commands take them from where `fit` was called.

    int8, trained: files in the folder. board: "" for a library.
    rate: None if nothing was trained by steps. loss: that of the project, "" if it is the one that
    is taken without data. samples: None for all. names: of the project's
    classes; those that no list with commas can say are in the folder's file NAMES.
    """

    folder: Path
    model: Path
    is_float: bool
    data: str
    int8: Path
    trained: Path
    rate: float | None
    epochs: int
    samples: int | None
    board: str
    slots: str
    seed: int
    classes: str
    has_targets: bool
    project_classes: str
    loss: str
    names: tuple[str, ...]
    reading: DataOptions
    training: FitOptions
    lines: tuple[str, ...]


def readme(story: Story) -> str:
    """Return the text."""
    folder = story.folder
    files = [
        (story.int8.name, "the int8 model as it was before"),
        (story.trained.name, "the trained model"),
        ("scheme.toml", "what was trained, as `--scheme` takes it"),
        ("run.npz, state.mcts", "the run's checkpoint, and the trained state alone"),
        ("head.npz", "the checkpoint of the head alone, unless that is what was trained"),
        ("train.jsonl", "every step: `mcutrain monitor` draws it"),
        ("project/", f"firmware for {story.board}" if story.board else "a C library that trains"),
        ("report.html", "the run, the memory plan and the scheme as a page; `mcutrain report`"),
        ("fit.json", "what was asked for and done; the same `mcutrain fit` goes on from it"),
    ]
    if not is_list(story.names):
        files.append((NAMES, "the names of the classes, as `--class-names` takes them"))
    return "\n".join(
        [
            f"# {story.model.name}, trained on {story.data}",
            "",
            "```",
            *story.lines,
            "```",
            "",
            "| file | what it is |",
            "|---|---|",
            *(f"| {name} | {what} |" for name, what in files),
            "",
            "## The same by hand",
            "",
            f"From where `mcutrain fit` was called. They write there, not into {folder}.",
            "",
            "```sh",
            *_commands(story),
            "```",
            "",
        ]
    )


def _commands(story: Story) -> list[str]:
    data = ["--data", story.data]
    int8 = str(story.model)
    commands: list[list[str]] = []
    if story.is_float:
        int8 = f"by-hand{story.int8.suffix}"
        calibration = ["--calibration", story.data, *_seed(story), *_pixels(story)]
        calibration += _frontend(story)
        stride = story.reading.stride
        calibration += [] if stride is None else ["--stride", str(stride)]
        calibration += _columns(story)
        commands.append(["quantize", str(story.model), *calibration, "-o", int8])
    simulate = ["simulate", int8, *data, "--scheme", str(story.folder / "scheme.toml")]
    simulate += ["--classes", story.classes] if story.classes != "auto" else []
    simulate += ["--epochs", str(story.epochs), *_rate(story), *_reading(story), *_seed(story)]
    simulate += _frontend(story)
    simulate += _augment(story)
    commands.append([*simulate, "--checkpoint", "by-hand.npz"])
    output = f"by-hand-trained{story.trained.suffix}"
    commands.append(["export", int8, "--state", "by-hand.npz", "-o", output])
    generate = ["generate", int8, "--scheme"]
    if story.has_targets:  # the run's checkpoint says what they mean
        generate += ["by-hand.npz", *_seed(story), *_frontend(story)]
    else:
        generate += [str(story.folder / "scheme.toml"), "--classes", story.project_classes]
        generate += ["--loss", story.loss] if story.loss else []
        generate += [*_seed(story), *_frontend(story)]
    generate += [*_names(story, story.names), *_normalization(story)]
    if story.board:
        generate += ["--board", story.board]
        generate += ["--slots", story.slots] if story.slots != "on" else []
    commands.append([*generate, "-o", "by-hand-project"])
    if story.board:
        train = ["train", "by-hand-project", *data, "--epochs", str(story.epochs), *_rate(story)]
        train += [*_reading(story), *_seed(story), *_augment(story)]
        commands += [["build", "by-hand-project"], ["flash", "by-hand-project"], train]
    return [shlex.join(["mcutrain", *words]) for words in commands]


def _rate(story: Story) -> list[str]:
    return [] if story.rate is None else ["--lr", repr(story.rate)]


def _seed(story: Story) -> list[str]:
    return ["--seed", str(story.seed)] if story.seed else []


def _augment(story: Story) -> list[str]:
    asked = story.training
    found = ["--augment", ",".join(asked.augment)] if asked.augment else []
    found += [] if asked.background is None else ["--background", str(asked.background)]
    return found + ([] if asked.snr is None else ["--snr", _joined(asked.snr)])


def _names(story: Story, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    text = ",".join(names) if is_list(names) else str(story.folder / NAMES)
    return ["--class-names", text]


def _frontend(story: Story) -> list[str]:
    return ["--frontend", story.reading.frontend] if story.reading.frontend else []


def _pixels(story: Story) -> list[str]:
    if story.training.pixels is not None:
        return ["--pixels", _joined(story.training.pixels)]
    return _normalization(story)


def _normalization(story: Story) -> list[str]:
    found = []
    for name, given in (("--mean", story.reading.mean), ("--std", story.reading.std)):
        found += [] if given is None else [name, _joined(given)]
    return found


def _columns(story: Story) -> list[str]:
    reading, found = story.reading, []
    for flag, value in (
        ("--targets", reading.targets),
        ("--split-by", reading.split_by),
        ("--label-column", reading.label_column),
    ):
        found += [flag, value] if value else []
    return found


def _reading(story: Story) -> list[str]:
    reading, usual = story.reading, DataOptions()
    found = _normalization(story)
    samples = reading.samples if story.samples is None else story.samples
    for flag, value, other in (
        ("--test-share", reading.test_share, usual.test_share),
        ("--samples", samples, None),
        ("--test-samples", reading.test_samples, None),
        ("--stride", reading.stride, None),
    ):
        found += [] if value == other else [flag, f"{value}"]
    return [*found, *_columns(story), *_names(story, reading.class_names or ())]


def _joined(numbers: Sequence[float]) -> str:
    """All of their digits: the same bytes come of them."""
    return ",".join(_digits(float(number)) for number in numbers)


def _digits(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
