"""What a report says of learning: curves, an analysis, a selection, schemes compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.report.checks import at_least_0, is_index, number, one_of

UNITS = ("epoch", "sample")
MEASURES = ("f1", "iou", "auc", "mae", "r2", "loss")
"""What a test says besides accuracy."""
MOST = 2.0**53
ACCURACY, AUC, R2 = "accuracy", "AUC", "R²"
"""What schemes are compared by: AUC where a network reproduces its input, R² of real targets."""


@dataclass(frozen=True)
class Point:
    """A place on a learning curve. at: epochs or samples done. loss: of classes, in nats.

    measures: what else a test said, by the names of MEASURES.
    """

    at: float
    test_accuracy: float | None = None
    train_accuracy: float | None = None
    loss: float | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


def measures_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Those of some values by name that a point has, where they are finite numbers."""
    known = {name: found[name] for name in MEASURES if type(found.get(name)) in (int, float)}
    return {name: float(value) for name, value in known.items() if abs(value) < MOST}


@dataclass(frozen=True)
class LearningCurve:
    """How a run learnt. unit: of the points' `at`. The first point is often before training."""

    name: str
    points: tuple[Point, ...]
    seed: int = 0
    unit: str = "epoch"

    def __post_init__(self) -> None:
        one_of("unit", self.unit, UNITS)
        if any(b.at < a.at for a, b in pairwise(self.points)):
            raise ValueError(f"the points of curve {self.name!r} are not in order")


@dataclass(frozen=True)
class ElasticChoice:
    """Tensors that were trained from a sample on. importance: of each, if it is known."""

    at: int
    tensors: tuple[str, ...]
    importance: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least_0(at=self.at)


@dataclass(frozen=True)
class ElasticChoices:
    """Choices of an elastic run. tensors: all that could be trained, nearest to the loss first."""

    tensors: tuple[str, ...]
    made: tuple[ElasticChoice, ...]

    def __post_init__(self) -> None:
        unknown = {name for one in self.made for name in one.tensors} - set(self.tensors)
        if unknown:
            raise ValueError(f"tensor {min(unknown)!r} was chosen of others")
        if any(b.at < a.at for a, b in pairwise(self.made)):
            raise ValueError("the choices are not in order")


@dataclass(frozen=True)
class NodeTime:
    """A node of a profile, as `mcutrain profile -o` writes it."""

    name: str
    kernel: str
    estimated: int
    counted: int | None = None

    def __post_init__(self) -> None:
        at_least_0(estimated=self.estimated, counted=self.counted)


@dataclass(frozen=True)
class TensorTime:
    """A trained tensor of it. update: what it alone needs; backward: the gradient up to it."""

    name: str
    update: int
    backward: int

    def __post_init__(self) -> None:
        at_least_0(update=self.update, backward=self.backward)


@dataclass(frozen=True)
class Profile:
    """What a step takes. board: whose; None: a usual chip's, or this computer's."""

    unit: str
    nodes: tuple[NodeTime, ...]
    tensors: tuple[TensorTime, ...]
    forward: int
    backward: int
    update: int
    board: str | None = None
    model_error: float | None = None
    misplaced: float | None = None

    def __post_init__(self) -> None:
        at_least_0(forward=self.forward, backward=self.backward, update=self.update)

    @property
    def is_counted(self) -> bool:
        """Whether somebody did, or a clock; otherwise it is the model's."""
        return bool(self.nodes) and all(node.counted is not None for node in self.nodes)


@dataclass(frozen=True)
class GainTable:
    """One measure of an analysis. bias: [k] by the last k biases. weights: layer → share → gain."""

    bias: tuple[float, ...]
    weights: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Analysis:
    """What training contributes: mcutrain.selection's Contributions without what no chart shows."""

    method: str
    layers: tuple[str, ...]
    gains: Mapping[str, GainTable]
    head: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for measure, gain in self.gains.items():
            if len(gain.bias) != len(self.layers) + 1:
                raise ValueError(
                    f"{measure} has {len(gain.bias)} bias gains for {len(self.layers)} layers"
                )
            for layer, shares in gain.weights.items():
                if not is_index(layer, len(self.layers)):
                    raise ValueError(f"{measure} has weights of layer {layer!r}")
                if not all(0 < number(share) <= 1 for share in shares):
                    raise ValueError(f"{measure}, layer {layer}: a share is not in 0 to 1")


@dataclass(frozen=True)
class ChosenLayer:
    """Trained weights and what they are expected to gain."""

    layer: int
    name: str
    share: float
    gain: float
    state_bytes: int = 0


@dataclass(frozen=True)
class ChosenModule:
    """A trained module and what it is expected to gain. channels: 0 if it has none to choose."""

    name: str
    channels: int
    gain: float
    state_bytes: int = 0


@dataclass(frozen=True)
class More:
    """The least larger budget that was found to gain more, and what changes then."""

    more_bytes: int
    more_gain: float
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """What mcutrain.selection.result.Selection.to_dict says, without what no chart shows.

    head: the measure with the head alone; gain: expected over it; bound: no scheme gains more.
    limits, free: by name, such as sram_bytes.
    """

    measure: str
    head: float
    gain: float
    bound: float
    optimal: bool
    bias_depth: int
    bias_gain: float
    layers: tuple[ChosenLayer, ...]
    sram_bytes: int
    flash_bytes: int
    instructions: int
    binding: str
    limits: Mapping[str, int | None] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)
    next: More | None = None
    modules: tuple[ChosenModule, ...] = ()
    published: str | None = None


@dataclass(frozen=True)
class SweepPoint:
    """The best scheme for one budget. expected: of the measure; trained: accuracies by seed."""

    budget_bytes: int
    sram_bytes: int
    measure: str
    expected: float
    trained: tuple[float, ...] = ()
    scheme: str = ""

    def __post_init__(self) -> None:
        at_least_0(budget_bytes=self.budget_bytes, sram_bytes=self.sram_bytes)


@dataclass(frozen=True)
class Compared:
    """A row of a comparison. accuracies: after training, one per seed. limit: of SRAM, if any.

    instructions: of a step, in the mean. learning_rate: of all its runs. ways, shots: if the
    accuracies are of few-shot episodes, their classes and training samples of each; else 0. learnt:
    the share of samples that a gate let through; None without one. levels: of those that took each
    front of a proxy cascade, the whole one first; none without one. measure: what accuracies are,
    AUC for networks that reproduce their input.
    """

    name: str
    scheme: str
    accuracies: tuple[float, ...]
    sram_bytes: int
    arena_bytes: int
    state_bytes: int
    flash_bytes: int
    sram_limit: int | None = None
    instructions: int | None = None
    before: tuple[float, ...] = ()
    learning_rate: float | None = None
    ways: int = 0
    shots: int = 0
    learnt: float | None = None
    levels: tuple[float, ...] = ()
    measure: str = ACCURACY

    def __post_init__(self) -> None:
        at_least_0(
            sram_bytes=self.sram_bytes,
            arena_bytes=self.arena_bytes,
            state_bytes=self.state_bytes,
            flash_bytes=self.flash_bytes,
            sram_limit=self.sram_limit,
            instructions=self.instructions,
            ways=self.ways,
            shots=self.shots,
        )

    @property
    def fits(self) -> bool | None:
        """Whether it does; None where there is no limit."""
        return None if self.sram_limit is None else self.sram_bytes <= self.sram_limit

    @property
    def accuracy(self) -> float:
        """The mean over the seeds."""
        return mean_of(self.accuracies)

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None for fewer than two."""
        return spread_of(self.accuracies)

    @property
    def interval(self) -> float | None:
        """Half the 95 % confidence interval of the mean; None for fewer than two."""
        return interval_of(self.accuracies)

    @property
    def error(self) -> float | None:
        """What stands behind ±: the interval of episodes, the spread of seeds."""
        return self.interval if self.ways else self.spread


def mean_of(values: Sequence[float]) -> float:
    """0 for none."""
    return sum(values) / max(len(values), 1)


def spread_of(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = mean_of(values)
    return float((sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5)


def interval_of(values: Sequence[float]) -> float | None:
    """Half the 95 % confidence interval of the mean, by Student's t; None for fewer than two."""
    spread = spread_of(values)
    if spread is None:
        return None
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975) * spread / len(values) ** 0.5)
