"""Flags of the commands that learn from a data set, and reading it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcutrain.cli.options import Profile, parse_number, parse_numbers, parse_rate
from mcutrain.cli.output import count_bar, say

if TYPE_CHECKING:
    from mcutrain.data import Episodes, ModelInput, Normalization, Split
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs import parallel
    from mcutrain.simulation import RunSettings
    from mcutrain.sparse.elastic import ElasticTimes
    from mcutrain.target import Target

Data = Annotated[
    Path,
    typer.Option(
        help="An .npz file (x, y, optionally split; or x_train, y_train, x_test, y_test, and "
        "x_val, y_val for choices; without labels only x, or x_train, x_test and optionally "
        "y_test, 1 = anomaly); a folder with a folder per class of images, WAV or CSV files; or a "
        "CSV file with a column of labels. docs/data.md says more.",
        show_default=False,
    ),
]
Stride = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="ROWS",
        help="Rows of a CSV file from one window to the next; by default the model's input length, "
        "without overlap.",
        show_default=False,
    ),
]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the training samples.")]
AnyEpochs = Annotated[
    int, typer.Option(min=0, help="Passes over the training samples; 0 trains nothing.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--lr",
        parser=parse_rate,
        metavar="X",
        help="Learning rate per sample, or a fraction; auto finds one by short trials on training "
        "samples, judged by the data's validation part if there is one, and prints it.",
    ),
]
RATE = "auto"
TEST_SHARE = 0.2
Schedule = Annotated[
    Literal["cosine", "constant"], typer.Option(help="Course of the learning rate.")
]
Warmup = Annotated[
    float, typer.Option(min=0, max=1, help="Share of all steps in which a cosine's rate rises.")
]
Flip = Annotated[bool, typer.Option("--flip", help="Mirror half of the training images.")]
Crop = Annotated[
    int, typer.Option(min=0, metavar="N", help="Shift training images by up to N pixels.")
]
Augment = Annotated[
    str | None,
    typer.Option(
        metavar="KIND,…",
        help="Vary training samples at random: crop (a part of the image, resized), colour "
        "(brightness, contrast, saturation), flip, shift (in time, or rows), gain, noise.",
        show_default=False,
    ),
]
Versions = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="K",
        help="Vary each sample in only K ways, the same again after K epochs, so that what the "
        "front of the network makes of them is computed once; 0 varies it anew in each.",
    ),
]
Replay = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        metavar="R",
        help="After each sample, train on R remembered ones again: an old task is not forgotten.",
    ),
]
Remember = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="How many samples --replay remembers, of all so far drawn alike; 200 by default.",
        show_default=False,
    ),
]
TrainingSamples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        min=1,
        metavar="N",
        help="Only N training samples, drawn by the seed, of every class alike.",
        show_default=False,
    ),
]
TestSamples = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Only N test samples, drawn by the seed, of every class alike.",
        show_default=False,
    ),
]
TestShare = Annotated[
    float, typer.Option(help="Share of the data for the test, if it does not say which.")
]
TestEvery = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="EPOCHS",
        help="Test after every so many epochs; 0 only before the first and after the last.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that train; one per CPU by default.", show_default=False),
]
Mean = Annotated[
    str | None,
    typer.Option(
        parser=parse_numbers,
        metavar="M,…",
        help="What pixels / 255 were normalized with in training, if the model's input "
        "parameters do not tell; with --std.",
        show_default=False,
    ),
]
Std = Annotated[
    str | None,
    typer.Option(parser=parse_numbers, metavar="S,…", help="See --mean.", show_default=False),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…|FILE",
        help="What the model's outputs are called, in their order: a list, or a text file with one "
        "a line. Without, what the model's file says; else the alphabetical order of the data's "
        "classes is taken, and said.",
        show_default=False,
    ),
]
Elastic = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Update only the tensors that lately helped most, so that a step takes this share of "
        "its time in the mean, such as 0.7. Without, all that the scheme names.",
        show_default=False,
    ),
]
Every = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="STEPS",
        help="From one choice of --elastic to the next, of which a tenth train everything to see "
        "what helps, and from one --swap to the next; by default an epoch's.",
        show_default=False,
    ),
]
Importance = Annotated[
    Literal["moves", "squares"],
    typer.Option(
        help="What --elastic chooses by. moves: what tensors did for the loss in two windows that "
        "follow one another, without noise; where the scheme is everything, or close to it. "
        "squares: how far they moved in both; where the scheme was chosen well before.",
    ),
]
Swap = Annotated[
    Literal["drawn", "fisher"] | None,
    typer.Option(
        "--swap",
        help="Choose anew, every so many steps, which columns are trained of the layers that the "
        "scheme trains in part; all keep what they have learnt. drawn: at random; fisher: each has "
        "its turn, then those that moved most in theirs.",
        show_default=False,
    ),
]
IsSwapping = Annotated[
    bool,
    typer.Option(
        "--swap",
        help="Train other columns every so many steps, as the project's firmware chooses them.",
    ),
]
Ways = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Few-shot episodes: learn N of the data's classes, drawn by the seed, with a new "
        "classifier, from --shots samples of each.",
        show_default=False,
    ),
]
Shots = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="So many training samples of each of the --ways classes; all test samples of these "
        "classes are tested.",
        show_default=False,
    ),
]
EpisodeCount = Annotated[
    int | None,
    typer.Option(
        "--episodes",
        metavar="E",
        help="So many episodes, one seed each, of which the mean accuracy and its 95 % confidence "
        "interval are told; 5 by default.",
        show_default=False,
    ),
]


Batches = Annotated[
    Literal["mixed", "level"],
    typer.Option(
        help="With --proxies and --accumulate: the samples of an update are mixed, as they come, "
        "or those of one level are put together; what is left over ends each epoch.",
    ),
]


@dataclass(frozen=True)
class DataSource:
    """Where samples come from, and how many of them are used; `seed` draws them.

    class_names: of the model's outputs, if they are given. is_partial: whether the data need not
    have two classes, since the model knows others.
    """

    path: Path
    samples: int | None
    test_samples: int | None
    test_share: float
    normalization: Normalization | None
    seed: int = 0
    stride: int | None = None
    class_names: tuple[str, ...] = ()
    is_partial: bool = False

    def for_model(self, graph: Graph, added: tuple[str, ...] = ()) -> DataSource:
        """Return a source for a model that may know more classes than the data has."""
        return replace(self, is_partial=bool(graph.class_names or self.class_names or added))

    def read_labelled(self, model: ModelInput) -> Split:
        """Read data whose labels are needed. Raises DataError if it has none."""
        from mcutrain.errors import DataError

        split = self.read(model)
        if not split.is_labelled:
            raise DataError(
                f"{self.path} has no labels, which are needed to compare what is learnt: save y "
                "(or y_train and y_test) beside the samples"
            )
        return split

    def read(self, model: ModelInput) -> Split:
        """As many samples of both parts as asked for; says what the model's input would clip."""
        from mcutrain.data import input_notes, load

        with count_bar() as bar:
            task = bar.add_task("reading samples")
            split = load(
                self.path,
                test_share=self.test_share,
                seed=self.seed,
                order=model.known_order,
                stride=self.stride,
                progress=lambda done, of: bar.update(task, completed=done, total=of),
                samples=self.samples,
                test_samples=self.test_samples,
                least_classes=1 if self.is_partial else 2,
                note=lambda text: say(f"mcutrain: note: {text}"),
                left_out=lambda text: say(f"mcutrain: note: {text}"),
            )
        for note in input_notes(split, model, self.normalization or "auto"):
            say(f"mcutrain: note: {note}")
        return split


@dataclass(frozen=True)
class ReadingFlags:
    """Flags of how a data set is read."""

    test_share: TestShare = TEST_SHARE
    mean: Mean = None
    std: Std = None
    stride: Stride = None
    class_names: ClassNames = None

    def source(
        self, path: Path, samples: int | None, test_samples: int | None, seed: int
    ) -> DataSource:
        """A data set that is read so. samples, test_samples: how many of them, None is all."""
        pixels = normalization(self.mean, self.std)
        source = DataSource(path, samples, test_samples, self.test_share, pixels, seed, self.stride)
        return replace(source, class_names=self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's outputs from --class-names; empty without it. Raises DataError."""
        from mcutrain.data import read_names

        return () if self.class_names is None else read_names(self.class_names)

    def named(self, graph: Graph) -> Graph:
        """The model with them. Raises DataError if there is not one for each output."""
        from mcutrain.formats import with_class_names

        return with_class_names(graph, self.names) if self.class_names is not None else graph


@dataclass(frozen=True)
class CountFlags:
    """Flags of how many samples are used."""

    samples: TrainingSamples = None
    test_samples: TestSamples = None


@dataclass(frozen=True)
class SourceFlags(ReadingFlags, CountFlags):
    """Flags of how a data set is read, and how much of it."""

    def of(self, path: Path, seed: int) -> DataSource:
        """A data set that is read so."""
        return self.source(path, self.samples, self.test_samples, seed)


@dataclass(frozen=True)
class LearningFlags:
    """Flags of how a network learns."""

    epochs: Epochs = 4
    lr: Rate = RATE  # type: ignore[assignment]  # typer parses it
    flip: Flip = False
    crop: Crop = 0
    augment: Augment = None
    versions: Versions = 0

    def settings(self, seed: int) -> RunSettings:
        """Return the settings of a run."""
        from mcutrain.simulation import RunSettings
        from mcutrain.simulation.augment import parse_augment

        kinds = () if self.augment is None else parse_augment(self.augment)
        settings = RunSettings(
            self.epochs,
            self.lr,
            seed=seed,
            flip=self.flip,
            crop_pixels=self.crop,
            augment=kinds,
            versions=self.versions,
        )
        settings.check()
        return settings


@dataclass(frozen=True)
class ScheduledLearningFlags(LearningFlags):
    """Learning flags, and flags for the course of the learning rate."""

    schedule: Schedule = "cosine"
    warmup: Warmup = 0.1

    def settings(self, seed: int) -> RunSettings:
        """Return the settings of a run."""
        return replace(super().settings(seed), schedule=self.schedule, warmup=self.warmup)


@dataclass(frozen=True)
class SimulatedLearningFlags(ScheduledLearningFlags):
    """Flags of a simulated run, which may have no step."""

    epochs: AnyEpochs = 4


@dataclass(frozen=True)
class ShareFlags:
    """Flags of training what helps most in a share of the time, and other columns in turn."""

    elastic: Elastic = None
    every: Every = 0
    profile: Profile = None
    importance: Importance = "moves"
    swap: Swap = None

    @property
    def elastic_of(self) -> parallel.Elastic | None:
        """How a comparison trains its elastic rows; None without --elastic."""
        from mcutrain.runs.parallel import Elastic

        every = self.every and not self.swap
        self._check(("--every", every), ("--profile", self.profile), self._asked)
        if self.elastic is None:
            return None
        return Elastic(self.elastic, self.every, self.profile, self.importance)

    @property
    def _asked(self) -> tuple[str, object]:
        return "--importance", self.importance != "moves"

    @property
    def swapping_of(self) -> parallel.Swapping | None:
        """How a comparison resamples input channels in its rows; None without --swap."""
        from mcutrain.runs.parallel import Swapping

        return None if self.swap is None else Swapping(self.swap, self.every)

    def _check(self, *flags: tuple[str, object]) -> None:
        from mcutrain.errors import DataError

        for flag, is_given in flags:
            if is_given and self.elastic is None:
                raise DataError(f"{flag} is of a run with --elastic SHARE: give that, too")


@dataclass(frozen=True)
class ElasticFlags(ShareFlags):
    """Elastic flags of a single run."""

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings with them."""
        every = self.every and not self.swap
        self._check(("--every", every), ("--profile", self.profile), self._asked)
        settings = replace(settings, elastic=self.elastic, every=self.every)
        return replace(settings, importance=self.importance, swap=self.swap or "")

    def times(self, step: TrainingStep, target: Target | None) -> ElasticTimes | None:
        """Return what the tensors of an elastic step take on a board, or on a Cortex-M4 or M7."""
        from mcutrain.functions.planning import elastic_times

        return elastic_times(step, target, self.profile)


@dataclass(frozen=True)
class EpisodeFlags:
    """Flags of few-shot episodes."""

    ways: Ways = None
    shots: Shots = None
    episodes: EpisodeCount = None

    def of(self, classes: str) -> Episodes | None:
        """Return the episodes; None without any. classes: of --classes. Raises DataError."""
        from mcutrain.data import Episodes

        return Episodes.of(self.ways, self.shots, self.episodes, classes)

    @staticmethod
    def check_names(source: DataSource, episodes: Episodes | None) -> None:
        """Raise typer.BadParameter for names of outputs that every episode has anew."""
        if episodes is not None and source.class_names:
            raise typer.BadParameter(
                "is of the model's outputs, but each episode has a new classifier: leave it out",
                param_hint="--class-names",
            )


@dataclass(frozen=True)
class ReplayFlags:
    """Flags of training on remembered samples again."""

    replay: Replay = 0
    remember: Remember = None

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings with them. Raises DataError if they do not go together."""
        if self.remember is not None and not self.replay:
            raise typer.BadParameter(
                "is how many samples --replay remembers: give that, too", param_hint="--remember"
            )
        remember = settings.remember if self.remember is None else self.remember
        found = replace(settings, replay=self.replay, remember=remember)
        found.check()
        return found


def normalization(mean: str | None, std: str | None) -> Normalization | None:
    """Parse --mean and --std."""
    from mcutrain.data import Normalization

    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise typer.BadParameter("give both --mean and --std, or none", param_hint="--mean")
    numbers = [tuple(parse_number(part) for part in text.split(",")) for text in (mean, std)]
    return Normalization(*numbers)
