"""What functions and commands that train can be asked for: samples, epochs, rates, episodes.

As mcutrain.functions.options, a field is a keyword and a flag.
"""

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import EPOCHS, Count, PathLike, Positive, Within
from mcutrain.errors import ArgumentError, DataError, OptionError
from mcutrain.functions.keywords import (
    COMPUTER,
    MEMORY,
    NETWORK,
    NOT_WORTH_IT,
    READING,
    Flag,
    Keywords,
)
from mcutrain.functions.options import (
    Accumulate,
    Board,
    FrontendFlag,
    Mean,
    Profile,
    Slots,
    Std,
    bytes_flag,
    file_flag,
    names,
    number,
    numbers,
    some_samples,
)
from mcutrain.target import Target, target_of

if TYPE_CHECKING:
    from mcutrain.data import Drawing, Episodes, Normalization
    from mcutrain.proxies import LadderSettings
    from mcutrain.simulation import RunSettings

TRAINING = "Training"
VARYING = "Varying the samples"
CHOOSING = "Choosing a scheme"
USUAL_RATE = "auto"
PROXY_SAMPLES = 400
MOST_SIDE = 8000
"""Pixels of a picture's side: larger images are not read."""
FIT_TESTS = 5
"""Tests of a run of `fit` while it trains: at least so many where it has as many epochs, and less
than twice as many."""


def rate(text: str) -> float | None:
    """Read a number or a fraction of two; None for `auto`. Raises ArgumentError."""
    return None if text == USUAL_RATE else number(text)


def kinds(text: str) -> tuple[str, ...]:
    """Read augmentations. Raises DataError."""
    from mcutrain.simulation.augment import parse_augment

    return parse_augment(text)


def normalization_of(
    mean: Sequence[float] | None, std: Sequence[float] | None
) -> "Normalization | None":
    """Make a normalization of both; None of neither. Raises OptionError, DataError."""
    from mcutrain.data import Normalization

    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise OptionError("mean", "and std belong together: give both, or none")
    return Normalization(tuple(mean), tuple(std))


# ------------------------------------------------------------------------------------------ samples


Stride = Annotated[
    Count | None,
    Flag(
        "Rows of a CSV file from one window to the next; by default the model's input length, "
        "without overlap.",
        metavar="ROWS",
        box=READING,
        shown=False,
    ),
]
TargetColumns = Annotated[
    str,
    Flag(
        "Columns of a CSV file that hold real targets: names joined by commas, or how many of "
        "the last columns. A window has those of its last row. Several columns of 0 and 1 alone "
        "(255: not known) are labels that do not exclude each other.",
        metavar="A,B,…|N",
        box=READING,
        shown=False,
    ),
]
SplitBy = Annotated[
    str,
    Flag(
        "Keep all samples of a group (a speaker, a person, a session) on one side. What names "
        "the group: a pattern of file names such as `'^([^_]+)_'`, a column of a CSV, or an "
        "array beside x.",
        metavar="PATTERN|COLUMN",
        box=READING,
        shown=False,
    ),
]
LabelColumn = Annotated[
    str,
    Flag(
        "The column of a CSV file that has the labels: its name, or its number from 1; by default "
        "the one named label, class, activity or target.",
        metavar="NAME|N",
        box=READING,
        shown=False,
    ),
]
ClassNames = Annotated[
    Sequence[str] | None,
    Flag(
        "Names of the model's outputs, in their order: a list, or a text file with one a line. "
        "By default those of the model's file, else the data's classes in alphabetical order.",
        metavar="A,B,…|FILE",
        box=READING,
        kind=str,
        parse=names,
        shown=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(Keywords):
    """What columns of a data set are for, besides targets."""

    split_by: SplitBy = ""
    label_column: LabelColumn = ""


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(ColumnOptions):
    """How a data set is read."""

    test_share: Annotated[
        float,
        Within(0, 1, is_above=True),
        Flag("Share of the data for the test, if it does not say which.", box=READING),
    ] = 0.2
    mean: Mean = None
    std: Std = None
    stride: Stride = None
    class_names: ClassNames = None
    targets: TargetColumns = ""
    frontend: FrontendFlag = ""

    @property
    def normalization(self) -> "Normalization | None":
        """What pixels / 255 were normalized with. Raises OptionError, DataError."""
        return normalization_of(self.mean, self.std)

    def drawn(self, samples: int | None = None, test_samples: int | None = None) -> "DataOptions":
        """Return options that draw so many samples; None takes all."""
        own = {f.name: getattr(self, f.name) for f in fields(ReadingOptions)}
        return DataOptions(**own, samples=samples, test_samples=test_samples)


@dataclass(frozen=True, kw_only=True)
class DataOptions(ReadingOptions):
    """How a data set is read, and how much of it."""

    samples: Annotated[
        Count | None,
        some_samples("Only N training samples, drawn by the seed, of every class alike."),
    ] = None
    test_samples: Annotated[
        Count | None,
        some_samples("Only N test samples, drawn by the seed, of every class alike."),
    ] = None

    def drawing(self, seed: int) -> "Drawing":
        """Return how the test part is drawn."""
        from mcutrain.data import Drawing

        return Drawing(self.test_share, seed, self.split_by)

    @property
    def taken(self) -> dict[str, Any]:
        """Keywords of load_data: what of the data is read."""
        names = "test_share samples test_samples stride targets split_by label_column"
        return {name: getattr(self, name) for name in names.split()}


# ----------------------------------------------------------------------------------------- training

Rate = Annotated[
    Positive | None,
    Flag(
        "Learning rate per sample: a number or a fraction. auto finds one by short trials and "
        "prints it; the data's validation part, or training samples, judge the trials.",
        "--lr",
        metavar="X",
        box=TRAINING,
        kind=str,
        parse=rate,
        shown=USUAL_RATE,
    ),
]


Background = Annotated[
    PathLike | None,
    Flag(
        "Mix noise from the sounds in this folder behind training samples, before the front end.",
        metavar="FOLDER",
        box=VARYING,
        kind=Path,
        shown=False,
    ),
]
SnrRange = Annotated[
    Sequence[float] | None,
    Flag(
        "Signal-to-noise ratio of --background, drawn between two whole numbers of decibels; 5,30 "
        "by default.",
        metavar="LOW,HIGH",
        box=VARYING,
        kind=str,
        parse=numbers,
        shown=False,
    ),
]


def snr_of(background: PathLike | None, given: Sequence[float] | None) -> tuple[int, int]:
    """The range in decibels. Raises OptionError."""
    if given is None:
        return (5, 30)
    if background is None:
        raise OptionError("snr", "is of the noise that --background mixes in: give that, too")
    if len(given) != 2 or not all(float(number).is_integer() for number in given):
        raise OptionError("snr", "is two whole numbers of decibels, as 5,30")
    return int(given[0]), int(given[1])


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Keywords):
    """How a network learns."""

    epochs: Annotated[Count, Flag("Passes over the training samples.", box=TRAINING)] = EPOCHS
    learning_rate: Rate = None
    flip: Annotated[bool, Flag("Mirror half of the training images.", box=VARYING)] = False
    crop: Annotated[
        int,
        Within(0),
        Flag("Shift training images by up to N pixels.", metavar="N", box=VARYING),
    ] = 0
    augment: Annotated[
        Sequence[str],
        Flag(
            "Vary training samples at random: crop (a part of the image, resized), colour "
            "(brightness, contrast, saturation), flip, shift (in time, or rows), gain, noise; "
            "time-shift (raw samples, before the front end).",
            metavar="KIND,…",
            box=VARYING,
            kind=str,
            parse=kinds,
            shown=False,
        ),
    ] = ()
    background: Background = None
    snr: SnrRange = None
    versions: Annotated[
        int,
        Within(0),
        Flag(
            "Vary each sample in only K ways, the same again after K epochs: faster, because the "
            "frozen layers are computed once for each way. 0 varies it anew in each epoch.",
            metavar="K",
            box=VARYING,
        ),
    ] = 0

    def settings(self, seed: int) -> "RunSettings":
        """Return the settings of a run. Raises DataError."""
        from mcutrain.simulation import RunSettings
        from mcutrain.simulation.rates import LearningRate

        if self.learning_rate is not None:
            LearningRate.of(self.learning_rate)  # or a sentence
        found = RunSettings(
            self.epochs,
            self.learning_rate,
            seed=seed,
            flip=self.flip,
            crop_pixels=self.crop,
            augment=tuple(self.augment),
            background="" if self.background is None else str(self.background),
            snr_db=snr_of(self.background, self.snr),
            versions=self.versions,
        )
        found.check()
        return found


@dataclass(frozen=True, kw_only=True)
class ScheduledOptions(TrainingOptions):
    """How a network learns, and the course of the learning rate."""

    schedule: Annotated[
        Literal["cosine", "constant"], Flag("Course of the learning rate.", box=TRAINING)
    ] = "cosine"
    warmup: Annotated[
        float,
        Within(0, 1),
        Flag(
            "Share of all steps in which the learning rate rises at the beginning, with cosine.",
            box=TRAINING,
        ),
    ] = 0.1

    def settings(self, seed: int) -> "RunSettings":
        """Return the settings of a run. Raises DataError."""
        from dataclasses import replace

        return replace(super().settings(seed), schedule=self.schedule, warmup=self.warmup)


def _test_every(epochs: int) -> int:
    return max(1, epochs // FIT_TESTS)


@dataclass(frozen=True, kw_only=True)
class FitOptions(Keywords):
    """How a network learns that `fit` trains, and how long that may take."""

    minutes: Annotated[
        Positive,
        Flag(
            "How long it may take in all. Epochs and, if need be, samples follow from it.",
            metavar="M",
            box=TRAINING,
            kind=str,
            parse=number,
            shown="5",
        ),
    ] = 5.0
    epochs: Annotated[
        Count | None,
        Flag(
            "Passes over the training samples; by default by --minutes.", box=TRAINING, shown=False
        ),
    ] = None
    learning_rate: Rate = None
    augment: Annotated[
        Sequence[str],
        Flag(
            "Vary training samples at random, as `mcutrain simulate --augment` does: crop, colour, "
            "flip, shift, gain, noise, time-shift.",
            metavar="KIND,…",
            box=VARYING,
            kind=str,
            parse=kinds,
            shown=False,
        ),
    ] = ()
    background: Background = None
    snr: SnrRange = None
    pixels: Annotated[
        Sequence[float] | None,
        Flag(
            "The real numbers that a float model takes for pixels 0 and 255, such as 0,1 or -1,1 "
            "or 0,255; or give --mean and --std. By default usual ones are tried on samples.",
            metavar="LOW,HIGH",
            box=READING,
            kind=str,
            parse=numbers,
            shown=False,
        ),
    ] = None

    @property
    def varies(self) -> bool:
        """Whether epochs vary the samples."""
        return bool(self.augment) or self.background is not None

    @staticmethod
    def tests(epochs: int) -> int:
        """How often a run of so many epochs is tested, before it, too."""
        return 1 + math.ceil(epochs / _test_every(epochs))

    def simulated(self, epochs: int, **more: object) -> "SimulationOptions":
        """Return the options of a run. Raises OptionError, DataError."""
        from dataclasses import replace

        own = SimulationOptions(
            epochs=epochs,
            learning_rate=self.learning_rate,
            augment=self.augment,
            background=self.background,
            snr=self.snr,
            test_every=_test_every(epochs),
        )
        return replace(own, **more)  # type: ignore[arg-type]


Replay = Annotated[
    int,
    Within(0, 1000),
    Flag(
        "After each sample, train on R remembered ones again, so that old classes are not "
        "forgotten.",
        metavar="R",
        box=TRAINING,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions(ScheduledOptions):
    """How a simulated run learns, which may have no step."""

    epochs: Annotated[
        int,
        Within(0),
        Flag("Passes over the training samples; 0 trains nothing.", box=TRAINING),
    ] = EPOCHS
    test_every: Annotated[
        int,
        Within(0),
        Flag(
            "Test after every so many epochs; 0 only before the first and after the last.",
            metavar="EPOCHS",
            box=TRAINING,
        ),
    ] = 1
    replay: Replay = 0
    remember: Annotated[
        Count | None,
        Flag(
            "How many samples --replay remembers, a random choice of all so far; 200 by default.",
            metavar="N",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    batches: Annotated[
        Literal["mixed", "level"],
        Flag(
            "With --proxies and --accumulate: the samples of an update come as they are (mixed), "
            "or are of one level. What is left over ends each epoch.",
            box=NOT_WORTH_IT,
        ),
    ] = "mixed"

    def settings(self, seed: int) -> "RunSettings":
        """Return the settings of a run. Raises OptionError, DataError."""
        from dataclasses import replace

        if self.remember is not None and not self.replay:
            raise OptionError("remember", "is how many samples --replay remembers: give that, too")
        settings = super().settings(seed)
        settings = replace(
            settings,
            test_every=self.test_every,
            replay=self.replay,
            remember=settings.remember if self.remember is None else self.remember,
            batches=self.batches,
        )
        settings.check()
        return settings


Elastic = Annotated[
    float | None,
    Flag(
        "Update only the tensors that lately helped most, so that a mean step takes this share "
        "of its time, such as 0.7. Off by default.",
        metavar="SHARE",
        box=NOT_WORTH_IT,
        shown=False,
    ),
]
Every = Annotated[
    int,
    Within(0),
    Flag(
        "Steps from one choice of --elastic or --resample to the next; by default those of an "
        "epoch. With --elastic a tenth of them trains everything, to see what helps.",
        metavar="STEPS",
        box=NOT_WORTH_IT,
        shown=False,
    ),
]
Importance = Annotated[
    Literal["moves", "squares"],
    Flag(
        "What --elastic chooses by. moves: what tensors did for the loss; take it where the "
        "scheme is everything, or close to it. squares: how far they moved; take it where the "
        "scheme was chosen well before.",
        box=NOT_WORTH_IT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ShareOptions(Keywords):
    """Training what helps most in a share of the time, and other input channels in turn."""

    elastic: Elastic = None
    every: Every = 0
    profile: Profile = None
    importance: Importance = "moves"
    swap: Annotated[
        Literal["", "drawn", "fisher"],
        Flag(
            "Every so many steps, choose anew which input channels of partly trained layers are "
            "trained; all keep what they have learnt. drawn: at random. fisher: each has its "
            "turn, then those that moved most.",
            "--resample",
            box=NOT_WORTH_IT,
            shown=False,
        ),
    ] = ""

    @property
    def profile_file(self) -> Path | None:
        """The file that says what tensors take."""
        return None if self.profile is None else Path(self.profile)

    def check(self) -> None:
        """Raise DataError for what is of an elastic run, of one that is none."""
        given = {
            "every": self.every and not self.swap,
            "profile": self.profile,
            "importance": self.importance != "moves",
        }
        for name, is_given in given.items():
            if is_given and self.elastic is None:
                raise DataError(f"--{name} is of a run with --elastic SHARE: give that, too")

    def of(self, settings: "RunSettings") -> "RunSettings":
        """The settings with them. Raises DataError."""
        from dataclasses import replace

        self.check()
        settings = replace(settings, elastic=self.elastic, every=self.every)
        return replace(settings, importance=self.importance, swap=self.swap)


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(Keywords):
    """Few-shot episodes."""

    ways: Annotated[
        int | None,
        Flag(
            "Few-shot episodes: learn N of the data's classes, drawn by the seed, with a new "
            "classifier, from --shots samples of each.",
            metavar="N",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    shots: Annotated[
        int | None,
        Flag(
            "Training samples of each of the --ways classes. All test samples of these classes "
            "are tested.",
            metavar="K",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    episodes: Annotated[
        int | None,
        Flag(
            "Number of episodes, one seed each; 5 by default. Prints their mean accuracy and its "
            "95 % confidence interval.",
            metavar="E",
            box=TRAINING,
            shown=False,
        ),
    ] = None

    def of(self, classes: int | str, class_names: Sequence[str] | None = None) -> "Episodes | None":
        """Return the episodes; None without any. classes: of a new head.

        Raises DataError, and OptionError for names of outputs that every episode has anew.
        """
        from mcutrain.data import Episodes

        found = Episodes.of(self.ways, self.shots, self.episodes, classes)
        if found is not None and class_names:
            raise OptionError(
                "class_names",
                "is of the model's outputs, but each episode has a new classifier: leave it out",
            )
        return found


# ------------------------------------------------------------------------------------------- files

TensorBoardFolder = Annotated[
    PathLike | None,
    file_flag(
        "Write TensorBoard's event files there: every step's loss, accuracy and rate, and the "
        "tests; needs `pip install 'mcutrain[tensorboard]'`.",
        metavar="FOLDER",
    ),
]


@dataclass(frozen=True, kw_only=True)
class KeptOptions(Keywords):
    """Files of a run."""

    checkpoint: Annotated[
        PathLike | None,
        file_flag(
            "Written while training and at Ctrl-C; if it exists, the run continues from it, to the "
            "same bits as without the interruption."
        ),
    ] = None
    after: Annotated[
        PathLike | None,
        file_flag(
            "Go on, with other data, from what the run of this checkpoint has learnt and "
            "remembers; as `mcutrain train --after` on a board.",
            metavar="CHECKPOINT",
        ),
    ] = None
    save_state: Annotated[
        PathLike | None,
        file_flag("Write the trained state there. mct_state_load of the generated C reads it."),
    ] = None
    save_model: Annotated[
        PathLike | None,
        file_flag("Write the model with the modules of --pet there, for `mcutrain export`."),
    ] = None
    log: Annotated[
        PathLike | None,
        file_flag("A JSON object per step and event is appended there, as `mcutrain train` does."),
    ] = None
    tensorboard: TensorBoardFolder = None


@dataclass(frozen=True, kw_only=True)
class BackendOptions(Keywords):
    """What computes a simulated run."""

    reference: Annotated[
        bool, Flag("Compute with numpy instead of C: the same bits, slowly.", box=COMPUTER)
    ] = False
    portable: Annotated[
        bool, Flag("Only the portable C, without this CPU's instructions.", box=COMPUTER)
    ] = False
    latent: Annotated[
        str,
        Flag(
            "Compute the frozen layers before the first trained one once for each sample, and "
            "begin steps with what they give, the latent: the same bits in less time. auto: "
            "where no augmentation varies the samples. Or name a tensor, see `mcutrain plan`.",
            metavar="auto|off|TENSOR",
            box=MEMORY,
        ),
    ] = "auto"


# --------------------------------------------------------------------------------------- comparing


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Keywords):
    """What there is for a scheme, and the analysis that one is selected by."""

    board: Board = None
    slots: Slots = "on"
    sram: Annotated[
        Count | None,
        bytes_flag("Bytes of arena and state, such as 64K, instead of a board's."),
    ] = None

    @property
    def target(self) -> Target | None:
        """The board, with its slots or without. Raises TargetError."""
        return target_of(self.board, self.slots)

    def check(self) -> None:
        """Raise OptionError for options that say the same."""
        if self.board is not None and self.sram is not None:
            raise OptionError("sram", "says the same as --board: give one of them, not both")


@dataclass(frozen=True, kw_only=True)
class RowOptions(Keywords):
    """Rows of a comparison besides the usual ones."""

    pets: Annotated[
        Sequence[str],
        Flag(
            "Another row, as `mcutrain simulate --pet` takes it; may be given again.",
            "--pet",
            metavar="KIND[:R]",
            box=NETWORK,
            shown=False,
        ),
    ] = ()
    seeds: Annotated[
        Annotated[int, Within(1, 100)] | None,
        Flag("Runs of each scheme; 3 by default.", box=TRAINING, shown=False),
    ] = None


# --------------------------------------------------------------------------------------- analysing


@dataclass(frozen=True, kw_only=True)
class HeldOutOptions(ReadingOptions):
    """How a data set is read of whose training samples some are for the test."""

    samples: Annotated[
        Count | None,
        some_samples(
            "Training samples to train on, of every class alike; half of them, 1000 at most, by "
            "default."
        ),
    ] = None
    test_samples: Annotated[
        Count | None,
        some_samples(
            "Other training samples to test on, of every class alike; what is left, 1000 at most, "
            "by default. The data's own test samples are not looked at."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(Keywords):
    """How contributions are measured."""

    epochs: Annotated[
        Count, Flag("Passes over the training samples, of every candidate.", box=TRAINING)
    ] = EPOCHS
    head_epochs: Annotated[
        Annotated[int, Within(0)] | None,
        Flag(
            "Passes before that, in which the classifier alone is trained; by default 0 by "
            "training and 10 by gradient.",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    learning_rate: Rate = None
    seeds: Annotated[
        int,
        Within(1, 100),
        Flag(
            "Average over this many runs, with other orders, rounding and classifiers.",
            box=TRAINING,
        ),
    ] = 1
    gradient_samples: Annotated[
        int, Within(2), Flag("By gradient: samples whose gradients are taken.", box=READING)
    ] = 256
    module_rate: Annotated[
        Positive | None,
        Flag(
            "Learning rate of modules, as a factor of the rate of all else: by default 1 for "
            "gains and 0.1 for all others. `select` writes it into the scheme.",
            metavar="F",
            shown=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions(Keywords):
    """Where trials run."""

    jobs: Annotated[
        Count | None,
        Flag("Candidates at once; one per core by default.", box=COMPUTER, shown=False),
    ] = None
    backend: Annotated[
        Literal["loky", "dask", "ray"],
        Flag(
            "loky: processes of this machine. dask, ray: a cluster, whose workers need the same "
            "version of mcutrain and a C compiler; samples are sent to them.",
            box=COMPUTER,
        ),
    ] = "loky"
    scheduler: Annotated[
        str | None,
        Flag(
            "Address of the cluster; without it a local one.",
            metavar="ADDRESS",
            box=COMPUTER,
            shown=False,
        ),
    ] = None


# --------------------------------------------------------------------------------------- selecting

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(text: str) -> float:
    """Read a time: 200ms is 0.2. Raises ArgumentError."""
    for unit, size in UNITS_S.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * size
    raise ArgumentError(f"{text!r} is no time such as 200ms or 1.5s")


def read_bias_bits(text: str) -> int | str:
    """Read --bias-bits of `select`. Raises ArgumentError."""
    if text not in ("32", "16", "any"):
        raise ArgumentError(f"{text!r} is not one of 32, 16 and any")
    return text if text == "any" else int(text)


@dataclass(frozen=True, kw_only=True)
class SchemeReading(ReadingOptions):
    """How a data set is read that schemes are trained on."""

    samples: Annotated[
        Count | None,
        some_samples("Training samples to train on, of every class alike; all by default."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LimitOptions(Keywords):
    """What a training step may take."""

    sram: Annotated[
        Count | None,
        bytes_flag(
            "SRAM to fit into, instead of the board's, such as 100K. Without --board arena and "
            "state alone count."
        ),
    ] = None
    flash: Annotated[
        Count | None,
        bytes_flag("Flash for code and constants, instead of what the board has."),
    ] = None
    instructions: Annotated[
        Count | None,
        Flag(
            "The most instructions that a training step may execute.",
            metavar="N",
            box=MEMORY,
            shown=False,
        ),
    ] = None
    step_seconds: Annotated[
        Positive | None,
        Flag(
            "The longest training step, such as 200ms.",
            "--step-time",
            metavar="TIME",
            box=MEMORY,
            kind=str,
            parse=seconds,
            shown=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SelectOptions(Keywords):
    """What is selected, and for which board."""

    board: Board = None
    slots: Slots = "on"
    measure: Annotated[
        str | None,
        Flag(
            "The measure to maximize. Of an analysis by training: accuracy, probability, loss. "
            "Of one by gradient: learnable, joint, dimension, fisher, first_order. The first one "
            "by default.",
            box=CHOOSING,
            shown=False,
        ),
    ] = None
    joint_rate: Annotated[
        Positive,
        Flag(
            "Share of the analysis' learning rate at which `joint` is asked. Schemes of many "
            "layers need a smaller rate than the head, which the analysis trains.",
            metavar="X",
            box=CHOOSING,
            kind=str,
            parse=number,
            shown="1/4",
        ),
    ] = 0.25
    accumulate: Accumulate = 1
    channels: Annotated[
        Literal["norm", "gradient"],
        Flag(
            "Which input channels a share takes: the largest by weight norm, or by gradient, as "
            "an analysis by gradient measured them.",
            box=NETWORK,
        ),
    ] = "norm"
    bias_bits: Annotated[
        Literal[32, 16, "any"],
        Flag(
            "Bits of each trained bias: 16 for its difference to the model's, 32, or any, "
            "whichever gains more in the same memory.",
            metavar="32|16|any",
            box=MEMORY,
            kind=str,
            parse=read_bias_bits,
            shown="16",
        ),
    ] = 16
    update_rule: Annotated[
        str | None,
        Flag(
            "How gradients become steps: sgd, momentum (a byte more for each weight) or rmsprop "
            "(4 bytes for each output channel); sgd by default.",
            metavar="RULE",
            box=NETWORK,
            shown=False,
        ),
    ] = None
    layer_bits: Annotated[
        bool,
        Flag(
            "Choose the residual bits of each layer by itself, instead of one number for all.",
            box=MEMORY,
        ),
    ] = False
    elastic: Annotated[
        bool,
        Flag(
            "For firmware of `generate --elastic`, which leaves tensors out while it runs. Only "
            "memory limits what is selected; a limit of time becomes the share for `train "
            "--elastic`.",
            box=NOT_WORTH_IT,
        ),
    ] = False

    @property
    def target(self) -> Target | None:
        """The board, with its slots or without. Raises TargetError."""
        return target_of(self.board, self.slots)

    @property
    def by_gradient(self) -> bool:
        """Are the channels of a share those with the largest gradient?"""
        return self.channels == "gradient"


# ---------------------------------------------------------------------------------------- proxies


@dataclass(frozen=True, kw_only=True)
class LevelOptions(Keywords):
    """Cheaper fronts for easy samples."""

    levels: Annotated[
        int,
        Flag("Number of fronts, with the network's own, level 0.", metavar="N"),
    ] = 3
    delta: Annotated[
        float,
        Flag(
            "How much less each level costs than the one before, as a share of what all "
            "removable channels cost.",
            metavar="SHARE",
        ),
    ] = 0.25
    threshold: Annotated[
        float | None,
        Flag(
            "Least cosine of a level's latent with the whole front's at which the level is near "
            "enough for a sample; by default the median of the cheapest level.",
            metavar="COSINE",
            shown=False,
        ),
    ] = None
    least_cosine: Annotated[
        float | None,
        Flag(
            "Write nothing unless every level reaches this cosine in the mean.",
            metavar="COSINE",
            shown=False,
        ),
    ] = None
    distillation: Annotated[
        int,
        Flag(
            "Passes over half of the samples in which each fitted front is trained for the "
            "latents of the whole one; 0 does not train.",
            metavar="PASSES",
        ),
    ] = 8

    @property
    def settings(self) -> "LadderSettings":
        """Return the settings of the proxies. Raises ArgumentError."""
        from mcutrain.proxies import LadderSettings

        found = LadderSettings(**{f.name: getattr(self, f.name) for f in fields(self)})
        found.check()
        return found


@dataclass(frozen=True, kw_only=True)
class UnlabelledReading(ReadingOptions):
    """How a data set is read of which labels do nothing."""

    samples: Annotated[
        Count | None,
        some_samples(f"Training samples; labels are not used. {PROXY_SAMPLES} at most by default."),
    ] = None


def width_and_height(text: str) -> tuple[int, ...]:
    """Read a size such as 640x480. Raises ArgumentError."""
    width, _, height = text.partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        raise ArgumentError(f"{text!r} is no size such as 640x480")
    return int(width), int(height)


@dataclass(frozen=True, kw_only=True)
class SnapOptions(Keywords):
    """How pictures are taken."""

    count: Annotated[Count, Flag("Take so many pictures.", metavar="N")] = 1
    every: Annotated[
        Positive,
        Flag("Take one every so many seconds, or as fast as the camera can.", metavar="SECONDS"),
    ] = 1.0
    camera: Annotated[
        int,
        Within(0, 255),
        Flag(
            "Number of the camera, from 0: as Picamera2 counts, or N of /dev/videoN.", metavar="N"
        ),
    ] = 0
    by: Annotated[
        Literal["auto", "picamera2", "opencv"],
        Flag(
            "What takes them; auto is Picamera2 where it can be imported, else OpenCV. A USB "
            "camera on a Pi needs opencv."
        ),
    ] = "auto"
    size: Annotated[
        Sequence[Annotated[int, Within(1, MOST_SIDE)]],
        Flag(
            "Pixels of a picture; cameras have a few sizes, and take the nearest.",
            metavar="WIDTHxHEIGHT",
            kind=str,
            parse=width_and_height,
            shown="640x480",
        ),
    ] = (640, 480)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.size) != 2:
            raise OptionError("size", f"is {tuple(self.size)}: give width and height")


@dataclass(frozen=True, kw_only=True)
class WatchOptions(Keywords):
    """How images are learnt as they arrive."""

    learning_rate: Annotated[
        Positive, Flag("Learning rate of each step.", "--lr", metavar="RATE")
    ] = 0.01
    replay: Annotated[
        int,
        Within(0, 64),
        Flag("Steps on images learnt before, after each new one, so that old classes are kept."),
    ] = 3
    every: Annotated[
        Positive, Flag("Look into the folder every so many seconds.", metavar="SECONDS")
    ] = 2.0
