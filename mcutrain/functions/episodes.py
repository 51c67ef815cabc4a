"""Few-shot episodes: many short runs, each of some of the data's classes."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, Episodes
from mcutrain.errors import OptionError
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.options import HeadStart, MemoryOptions, SimulatedRequest
from mcutrain.functions.preparing import Scheme
from mcutrain.functions.run_options import (
    BackendOptions,
    DataOptions,
    EpisodeOptions,
    KeptOptions,
    ShareOptions,
    SimulationOptions,
)
from mcutrain.functions.simulating import Learnt, Simulation, say_doubts
from mcutrain.ir.graph import Graph
from mcutrain.report.learning import interval_of, mean_of
from mcutrain.runs.result import SimulationResult
from mcutrain.shown import Record, Shown


@dataclass(frozen=True, repr=False)
class FewShot(Shown):
    """Few-shot episodes that are over. runs: one of each."""

    episodes: Episodes
    runs: tuple[Learnt, ...]

    @property
    def results(self) -> tuple[SimulationResult, ...]:
        """What each run did."""
        return tuple(run.result for run in self.runs)

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each episode."""
        return [result.accuracy for result in self.results]

    @property
    def before(self) -> float:
        """Mean accuracy before training."""
        return mean_of([result.before for result in self.results])

    @property
    def accuracy(self) -> float:
        """Mean accuracy after training."""
        return mean_of(self.accuracies)

    @property
    def interval(self) -> float | None:
        """Half of the mean's 95 % confidence interval; None for one episode."""
        return interval_of(self.accuracies)

    def summary(self) -> str:
        """Return a line that describes it."""
        error = "" if self.interval is None else f" ± {100 * self.interval:.1f}"
        return (
            f"{len(self.runs)} episodes of {self.episodes.ways} classes and {self.episodes.shots} "
            f"samples of each: accuracy {100 * self.accuracy:.1f}{error} %"
        )

    def records(self) -> list[Record]:
        """A row for each episode."""
        return [
            {
                "seed": run.run.settings.seed,
                "classes": ", ".join(run.run.samples.split.names),
                "accuracy_before": run.result.before,
                "accuracy": run.result.accuracy,
            }
            for run in self.runs
        ]

    def to_dict(self) -> Record:
        """The mean, and all episodes."""
        return {
            "model": self.runs[0].step.graph.name,
            "scheme": self.runs[0].step.scheme.name,
            "ways": self.episodes.ways,
            "shots": self.episodes.shots,
            "accuracy_before": self.before,
            "accuracy": self.accuracy,
            "interval": self.interval,
            "episodes": [run.result.to_dict() for run in self.runs],
        }


@with_keywords
@checked
def simulate_episodes(
    model: Graph | PathLike,
    data: Data,
    scheme: Scheme | None = None,
    *,
    few_shot: EpisodeOptions = EpisodeOptions(),
    request: SimulatedRequest = SimulatedRequest(),
    training: SimulationOptions = SimulationOptions(),
    share: ShareOptions = ShareOptions(),
    hardware: MemoryOptions = MemoryOptions(),
    reading: DataOptions = DataOptions(),
    kept: KeptOptions = KeptOptions(),
    backend: BackendOptions = BackendOptions(),
    head_start: HeadStart = "zeros",
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> FewShot:
    """Learn `ways` of the data's classes from `shots` samples of each, `episodes` times.

    Each episode has a new classifier, and classes and samples drawn by a seed of its own. All test
    samples of its classes are tested. Fields of few_shot … backend are keywords, too;
    mcutrain.functions.options and mcutrain.functions.run_options explain each.

    model, data, request … seed: as `simulate` takes them; the scheme is the head by default.
    few_shot: ways, shots, and episodes, 5 by default. listener: hears notes and progress; by
    default notes are Python warnings.

    Raises DataError if the data has too few classes or samples; as `simulate`.

    >>> simulate_episodes("model.int8.tflite", (x, y), ways=5, shots=5, epochs=20).accuracy
    """
    episodes = few_shot.of("auto", reading.class_names)
    if episodes is None:
        raise OptionError("ways", "and shots say what an episode is: give both, such as 5 and 5")
    simulation = Simulation(
        request, training, share, hardware, reading, kept, backend, head_start, seed
    )
    runs = simulation.run(model, data, scheme, "auto", episodes, listener)
    say_doubts(runs, listener)
    return FewShot(episodes, runs)
