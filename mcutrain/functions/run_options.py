"""What functions and commands that train can be asked for: samples, epochs, rates, episodes.

As mcutrain.functions.options, a field is a keyword and a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mcutrain.arguments import Count, PathLike, Positive, Within
from mcutrain.errors import DataError, OptionError
from mcutrain.functions.keywords import Flag, Options
from mcutrain.functions.options import (
    COMPUTER,
    FILES,
    MEMORY,
    NETWORK,
    NOT_WORTH_IT,
    READING,
    Board,
    Mean,
    Profile,
    Slots,
    Std,
    names,
    number,
    number_of_bytes,
)
from mcutrain.target import Target, target_of

if TYPE_CHECKING:
    from mcutrain.data import Episodes, Normalization
    from mcutrain.simulation import RunSettings

TRAINING = "Training"
USUAL_RATE = "auto"


def rate(text: str) -> float | None:
    """Read a number or a fraction of two; None for `auto`. Raises ArgumentError."""
    return None if text == USUAL_RATE else number(text)


def kinds(text: str) -> tuple[str, ...]:
    """Read augmentations. Raises DataError."""
    from mcutrain.simulation.augment import parse_augment

    return parse_augment(text)


def normalization_of(
    mean: Sequence[float] | None, std: Sequence[float] | None
) -> Normalization | None:
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
ClassNames = Annotated[
    Sequence[str] | None,
    Flag(
        "What the model's outputs are called, in their order: a list, or a text file with one "
        "a line. Without, what the model's file says; else the alphabetical order of the "
        "data's classes is taken, and said.",
        metavar="A,B,…|FILE",
        box=READING,
        kind=str,
        parse=names,
        shown=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
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

    @property
    def normalization(self) -> Normalization | None:
        """What pixels / 255 were normalized with. Raises OptionError, DataError."""
        return normalization_of(self.mean, self.std)


@dataclass(frozen=True, kw_only=True)
class DataOptions(ReadingOptions):
    """How a data set is read, and how much of it."""

    samples: Annotated[
        Count | None,
        Flag(
            "Only N training samples, drawn by the seed, of every class alike.",
            metavar="N",
            box=READING,
            shown=False,
        ),
    ] = None
    test_samples: Annotated[
        Count | None,
        Flag(
            "Only N test samples, drawn by the seed, of every class alike.",
            metavar="N",
            box=READING,
            shown=False,
        ),
    ] = None


# ----------------------------------------------------------------------------------------- training

Rate = Annotated[
    Positive | None,
    Flag(
        "Learning rate per sample, or a fraction; auto finds one by short trials on training "
        "samples, judged by the data's validation part if there is one, and prints it.",
        "--lr",
        metavar="X",
        box=TRAINING,
        kind=str,
        parse=rate,
        shown=USUAL_RATE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """How a network learns."""

    epochs: Annotated[Count, Flag("Passes over the training samples.", box=TRAINING)] = 4
    learning_rate: Rate = None
    flip: Annotated[bool, Flag("Mirror half of the training images.", box=TRAINING)] = False
    crop: Annotated[
        int,
        Within(0),
        Flag("Shift training images by up to N pixels.", metavar="N", box=TRAINING),
    ] = 0
    augment: Annotated[
        Sequence[str],
        Flag(
            "Vary training samples at random: crop (a part of the image, resized), colour "
            "(brightness, contrast, saturation), flip, shift (in time, or rows), gain, noise.",
            metavar="KIND,…",
            box=TRAINING,
            kind=str,
            parse=kinds,
            shown=False,
        ),
    ] = ()
    versions: Annotated[
        int,
        Within(0),
        Flag(
            "Vary each sample in only K ways, the same again after K epochs, so that what the "
            "front of the network makes of them is computed once; 0 varies it anew in each.",
            metavar="K",
            box=TRAINING,
        ),
    ] = 0

    def settings(self, seed: int) -> RunSettings:
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
        Flag("Share of all steps in which a cosine's rate rises.", box=TRAINING),
    ] = 0.1

    def settings(self, seed: int) -> RunSettings:
        """Return the settings of a run. Raises DataError."""
        from dataclasses import replace

        return replace(super().settings(seed), schedule=self.schedule, warmup=self.warmup)


Replay = Annotated[
    int,
    Within(0, 1000),
    Flag(
        "After each sample, train on R remembered ones again: an old task is not forgotten.",
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
    ] = 4
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
            "How many samples --replay remembers, of all so far drawn alike; 200 by default.",
            metavar="N",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    batches: Annotated[
        Literal["mixed", "level"],
        Flag(
            "With --proxies and --accumulate: the samples of an update are mixed, as they come, "
            "or those of one level are put together; what is left over ends each epoch.",
            box=NOT_WORTH_IT,
        ),
    ] = "mixed"

    def settings(self, seed: int) -> RunSettings:
        """Return the settings of a run. Raises OptionError, DataError."""
        from dataclasses import replace

        if self.remember is not None and not self.replay:
            raise OptionError("remember", "is how many samples --replay remembers: give that, too")
        found = super().settings(seed)
        found = replace(
            found,
            test_every=self.test_every,
            replay=self.replay,
            remember=found.remember if self.remember is None else self.remember,
            batches=self.batches,
        )
        found.check()
        return found


Elastic = Annotated[
    float | None,
    Flag(
        "Update only the tensors that lately helped most, so that a step takes this share of its "
        "time in the mean, such as 0.7. Without, all that the scheme names.",
        metavar="SHARE",
        box=NOT_WORTH_IT,
        shown=False,
    ),
]
Every = Annotated[
    int,
    Within(0),
    Flag(
        "From one choice of --elastic to the next, of which a tenth train everything to see what "
        "helps, and from one --swap to the next; by default an epoch's.",
        metavar="STEPS",
        box=NOT_WORTH_IT,
        shown=False,
    ),
]
Importance = Annotated[
    Literal["moves", "squares"],
    Flag(
        "What --elastic chooses by. moves: what tensors did for the loss in two windows that "
        "follow one another, without noise; where the scheme is everything, or close to it. "
        "squares: how far they moved in both; where the scheme was chosen well before.",
        box=NOT_WORTH_IT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ShareOptions(Options):
    """Training what helps most in a share of the time, and other input channels in turn."""

    elastic: Elastic = None
    every: Every = 0
    profile: Profile = None
    importance: Importance = "moves"
    swap: Annotated[
        Literal["", "drawn", "fisher"],
        Flag(
            "Choose anew, every so many steps, which columns are trained of the layers that the "
            "scheme trains in part; all keep what they have learnt. drawn: at random; fisher: each "
            "has its turn, then those that moved most in theirs.",
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

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings with them. Raises DataError."""
        from dataclasses import replace

        self.check()
        settings = replace(settings, elastic=self.elastic, every=self.every)
        return replace(settings, importance=self.importance, swap=self.swap)


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(Options):
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
            "So many training samples of each of the --ways classes; all test samples of these "
            "classes are tested.",
            metavar="K",
            box=TRAINING,
            shown=False,
        ),
    ] = None
    episodes: Annotated[
        int | None,
        Flag(
            "So many episodes, one seed each, of which the mean accuracy and its 95 % confidence "
            "interval are told; 5 by default.",
            metavar="E",
            box=TRAINING,
            shown=False,
        ),
    ] = None

    def of(self, classes: int | str, class_names: Sequence[str] | None = None) -> Episodes | None:
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
    Flag(
        "Write TensorBoard's event files there: every step's loss, accuracy and rate, and the "
        "tests; needs `pip install 'mcutrain[tensorboard]'`.",
        metavar="FOLDER",
        box=FILES,
        kind=Path,
        shown=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class KeptOptions(Options):
    """Files of a run."""

    checkpoint: Annotated[
        PathLike | None,
        Flag(
            "Written while training and at Ctrl-C; if it exists, the run continues from it, to the "
            "same bits as without the interruption.",
            box=FILES,
            kind=Path,
            shown=False,
        ),
    ] = None
    after: Annotated[
        PathLike | None,
        Flag(
            "Go on, with other data, from what the run of this checkpoint has learnt and "
            "remembers; as `mcutrain train --after` on a board.",
            metavar="CHECKPOINT",
            box=FILES,
            kind=Path,
            shown=False,
        ),
    ] = None
    save_state: Annotated[
        PathLike | None,
        Flag(
            "Write the trained state there, as mct_state_load reads it.",
            box=FILES,
            kind=Path,
            shown=False,
        ),
    ] = None
    save_model: Annotated[
        PathLike | None,
        Flag(
            "Write the model with the modules of --pet there, for `mcutrain export`.",
            metavar="FILE",
            box=FILES,
            kind=Path,
            shown=False,
        ),
    ] = None
    log: Annotated[
        PathLike | None,
        Flag(
            "A JSON object per step and event is appended there, as `mcutrain train` does.",
            box=FILES,
            kind=Path,
            shown=False,
        ),
    ] = None
    tensorboard: TensorBoardFolder = None


@dataclass(frozen=True, kw_only=True)
class BackendOptions(Options):
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
            "Compute what lies before the first trained layer once for each sample, and begin "
            "steps with that tensor, its latent: the same bits in less time. auto does so where no "
            "augmentation varies the samples; or name a tensor, see `mcutrain plan`.",
            metavar="auto|off|TENSOR",
            box=MEMORY,
        ),
    ] = "auto"


# --------------------------------------------------------------------------------------- comparing


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """What there is for a scheme, and the analysis that one is selected by."""

    board: Board = None
    slots: Slots = "on"
    sram: Annotated[
        Count | None,
        Flag(
            "Bytes of arena and state, such as 64K, instead of a board's.",
            metavar="BYTES",
            box=MEMORY,
            kind=str,
            parse=number_of_bytes,
            shown=False,
        ),
    ] = None

    @property
    def target(self) -> Target | None:
        """The board, with its slots or without. Raises TargetError."""
        return target_of(self.board, self.slots)

    def check(self) -> None:
        """Raise OptionError for options that say the same."""
        if self.board is not None and self.sram is not None:
            raise OptionError("sram", "and a board say the same: give one of them")


@dataclass(frozen=True, kw_only=True)
class RowOptions(Options):
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
