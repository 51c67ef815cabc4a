"""What trains: one scheme, many schemes beside each other, every part of a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from mcutrain.analysis.gradient import GradientSettings, by_gradient, rate_note
from mcutrain.analysis.problem import HEAD_EPOCHS, Problem, held_out
from mcutrain.analysis.progress import TrialsDone
from mcutrain.analysis.rate import found_rate
from mcutrain.analysis.training import TrainingSettings, by_training
from mcutrain.analysis.workers import Execution, check_backend
from mcutrain.arguments import Count, PathLike, Positive, Seed, Share, Within, checked, warn
from mcutrain.data import Data, Episodes, Split, input_notes
from mcutrain.errors import ArgumentError, DataError
from mcutrain.functions.automatic import AUTO, Chooser, MemoryLimit, wanted_scheme
from mcutrain.functions.models import normalization_of
from mcutrain.functions.modules import pet_rows, with_pet
from mcutrain.functions.preparing import with_qas
from mcutrain.ir.graph import Graph
from mcutrain.modules import parse_pet
from mcutrain.pipeline import StepOptions, TrainingStep, load, prepare
from mcutrain.pipeline.losses import fit_classes, fit_to_data
from mcutrain.pipeline.recipe import PutModules
from mcutrain.proxies import kept_ladder
from mcutrain.report.collect import curve_of
from mcutrain.report.compare import (
    Budget,
    PlannedRow,
    Planner,
    Proxies,
    Runs,
    elastic_of,
    graphs_of,
    makings_of,
    selected,
    swapping_of,
    trials,
    usual,
    with_results,
)
from mcutrain.report.learning import Compared, LearningCurve
from mcutrain.runs.head_start import head_start_of
from mcutrain.runs.parallel import Elastic, Lesson, Standing, Swapping, train_all
from mcutrain.runs.training import (
    SimulationResult,
    Watch,
    load_data,
    model_input,
    train,
    warn_of_rate,
)
from mcutrain.shown import Record, Shown
from mcutrain.simulation import RunSettings, check_can_build
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, as_scheme, find_head
from mcutrain.sparse.contribution import Contributions, read_contributions
from mcutrain.target import Slots, Target, target_of

Scheme = UpdateScheme | PathLike
Classes = Count | Literal["auto", "keep"]
TestShare = Annotated[float, Within(0, 1, is_above=True)]


@checked
def simulate(
    model: Graph | PathLike,
    data: Data,
    scheme: Scheme | None = None,
    *,
    board: PathLike | Target | None = None,
    slots: Slots = "on",
    sram: Count | None = None,
    validation: Data | None = None,
    classes: Classes = "auto",
    added: Sequence[str] = (),
    head_start: Literal["zeros", "random", "prototypes"] = "zeros",
    loss: Literal["cross-entropy", "mse", "auto"] = "auto",
    epochs: Annotated[int, Within(0)] = 4,
    learning_rate: Positive | None = None,
    schedule: Literal["cosine", "constant"] = "cosine",
    warmup: Share = 0.1,
    seed: Seed = 0,
    flip: bool = False,
    crop: Annotated[int, Within(0)] = 0,
    samples: Count | None = None,
    test_samples: Count | None = None,
    test_share: TestShare = 0.2,
    stride: Count | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    accumulate: Count = 1,
    gradient_dtype: Literal["int8", "int16"] = "int8",
    qas: bool = True,
    gate: float | None = None,
    elastic: float | None = None,
    every: Annotated[int, Within(0)] = 0,
    importance: Literal["moves", "squares"] = "moves",
    swap: Literal["", "drawn", "fisher"] = "",
    checkpoint: PathLike | None = None,
    latent: str = "auto",
    pet: str | None = None,
    proxies: PathLike | None = None,
    drift: bool = False,
    batches: Literal["mixed", "level"] = "mixed",
    class_names: Sequence[str] = (),
    watch: Watch | None = None,
) -> SimulationResult:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    model: an int8 file's path, or a graph of `load`. data: a path (.npz file, folder of images), a
    Split, or arrays (x, y): x (n, height, width, channels), (n, time, channels) or (n, features),
    uint8 pixels, int8 as the model takes it, or real numbers; y (n,) class numbers. scheme: what to
    train; "auto", the default, is what `auto_scheme` finds for board, slots and sram, or for 256 KB
    without these. With pet, proxies, added or 0 epochs the default is the head. A checkpoint that
    exists has its own. validation: (x, y) to test on; without it the data's own test part, or
    test_share of every class. classes: outputs of a new head, "keep" the model's, "auto" keeps it
    if the data has as many, or some of those that the model names. head_start: of a new head:
    prototypes are the mean of each class's samples, which tell them apart before the first step; 0
    epochs train nothing. added: names of classes that the model's head learns in addition.
    class_names: of the model's outputs, in their order; by default those of its file. The data's
    classes are found among them by name. learning_rate: per sample; without, one is found by short
    trials, and the result names it.
    samples, test_samples: so many of each part, drawn by seed. stride: rows between the windows of
    CSV files, by default a window's.
    gate: as `prepare` takes it. elastic: the share of a step's time on a Cortex-M4 or M7 that the
    mean step may take, 0 to 1: then only the tensors that helped most are trained, and chosen anew
    `every` steps, 0: an epoch's; importance: by their moves, or by squares of them. swap: as often
    other columns are trained of the layers that the scheme trains in part, by this rule, as
    `prepare` has it. checkpoint: a file to continue from if it exists, and to save to. latent: as
    `train` takes it. pet: modules that are put in and trained besides the scheme, such as
    "adapter:8"; `export` puts the same ones into the file. proxies:
    a folder that `mcutrain proxies` wrote, of fronts of which a policy takes one for each sample;
    drift: as `prepare` takes it. batches: level puts together samples that take the same front, as
    many as an update has.

    Warns of values that the model's input clips, and of an order of classes that was guessed.
    Raises DataError if the data does not fit; ModelError, SchemeError, StateError, BuildError,
    ArgumentError.

    >>> simulate("model.int8.tflite", (x, y), "last:3", epochs=2, learning_rate=0.03).accuracy
    """
    check_can_build()
    memory = MemoryLimit.of(target_of(board, slots), sram)
    fixed: dict[str, object] = {"pet": pet, "proxies": proxies, "added": added}
    fixed["epochs=0"] = epochs == 0
    file = None if checkpoint is None else Path(checkpoint)
    chosen = wanted_scheme(scheme, (file,), fixed)
    settings = _settings(epochs, learning_rate, schedule, warmup, seed, flip, crop)
    settings = replace(settings, elastic=elastic, every=every, importance=importance, swap=swap)
    settings = replace(settings, batches=batches)
    graph = _graph(model)
    split = load_data(
        graph,
        data,
        test_share,
        seed,
        validation=validation,
        samples=samples,
        test_samples=test_samples,
        stride=stride,
        is_partial=bool(graph.class_names or class_names or added),
    )
    fitted = fit_to_data(graph, split, classes, loss, tuple(added), class_names)
    wanted, loss_name, split = fitted.classes, fitted.loss, fitted.split
    for note in filter(None, (*fitted.notes, fitted.forgets)):
        warn(note)
    put = None
    if pet is not None:
        modules, before = parse_pet(pet), graph
        graph = with_pet(graph, modules, split, normalization_of(mean, std), seed)
        put = PutModules.into(before, pet, graph) if modules.specs else None
        chosen = modules.scheme(as_scheme(chosen))
    normalization = normalization_of(mean, std)
    start = head_start_of(head_start, graph, split, wanted, normalization, seed)
    options = StepOptions(
        gradient_dtype,
        accumulate,
        gate,
        elastic is not None,
        swap,
        classes=wanted,
        added=tuple(added),
        class_names=fitted.class_names,
        loss=loss_name,
        drift=drift,
    )
    ladder = None if proxies is None else kept_ladder(Path(proxies))

    def plan(scheme: Scheme) -> TrainingStep:
        trained = with_qas(scheme, qas)
        return prepare(graph, trained, options, ladder=ladder, head_start=start, head_seed=seed)

    if chosen == AUTO:
        chooser = Chooser(graph, wanted, memory, plan, options)
        chosen = chooser.choose(split, normalization_of(mean, std)).scheme
    step = plan(chosen).of_model(put)
    return train(
        step,
        split,
        settings,
        normalization=normalization,
        checkpoint=checkpoint,
        latent=latent,
        watch=watch,
    )


@checked
def analyze(
    model: Graph | PathLike,
    data: Data,
    by: Literal["training", "gradient"] = "training",
    *,
    classes: Classes = "auto",
    samples: Count | None = None,
    test_samples: Count | None = None,
    test_share: TestShare = 0.2,
    stride: Count | None = None,
    epochs: Count = 4,
    head_epochs: Annotated[int, Within(0)] | None = None,
    learning_rate: Positive | None = None,
    seed: Seed = 0,
    seeds: Annotated[int, Within(1, 100)] = 1,
    gradient_samples: Annotated[int, Within(2)] = 256,
    module_rate: Positive | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    jobs: Count | None = None,
    backend: Literal["loky", "dask", "ray"] = "loky",
    scheduler: str | None = None,
    class_names: Sequence[str] = (),
    progress: Callable[[TrialsDone], None] | None = None,
) -> Contributions:
    """Measure what training each bias depth and each layer's weights gains.

    model, data, classes, class_names: as `simulate` takes them; only training samples are looked
    at, of which samples are trained on and test_samples tested on. by: "training" trains every
    candidate, minutes to hours, results stay in the cache; "gradient" estimates in seconds.
    module_rate: of the modules that the model has, as UpdateScheme has it. jobs: candidates at
    once; backend, scheduler: a Dask or Ray cluster. progress: called with how far it is.

    The result goes to `select`; write(path) keeps it. Raises DataError, ModelError, AnalysisError,
    BuildError, ArgumentError.

    >>> analyze("model.int8.tflite", (x, y), by="gradient", learning_rate=0.03)
    """
    tell = progress or (lambda done: None)
    execution = Execution(jobs, backend, scheduler)
    check_backend(execution)
    check_can_build()
    graph = _graph(model)
    whole = _labelled(load_data(graph, data, test_share, seed, stride=stride))
    fitted = fit_classes(graph, whole, classes, class_names)
    wanted, whole = fitted.classes, fitted.split
    for note in fitted.notes:
        warn(note)
    split = held_out(whole.train, samples, test_samples, seed, whole.validation)
    problem = Problem.of(graph, split, wanted, normalization_of(mean, std), warn)
    problem.check_module_rate(module_rate)
    first = HEAD_EPOCHS[by] if head_epochs is None else head_epochs
    rate = _found_rate(problem, epochs, seed) if learning_rate is None else learning_rate
    if by == "gradient":
        is_found = learning_rate is None
        settings = GradientSettings(
            gradient_samples, rate, seed, first, epochs, is_found, module_rate
        )
        found = by_gradient(problem, settings, lambda what, n, of: tell(TrialsDone(what, n, of)))
        if note := rate_note(found, rate):
            warn(note)
        return found
    trials = TrainingSettings(epochs, rate, seed, seeds, first, module_rate)
    return by_training(problem, trials, execution, tell)


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Schemes trained alike. rows: what each needs and reached. curves: how each learnt, seed 0.

    With few-shot episodes these are in the place of seeds.
    """

    model: str
    rows: tuple[Compared, ...]
    curves: tuple[LearningCurve, ...]

    @property
    def best(self) -> Compared:
        """The most accurate row of those that fit; of all, if none does."""
        fitting = [row for row in self.rows if row.fits is not False]
        return max(fitting or self.rows, key=lambda row: row.accuracy)

    def summary(self) -> str:
        """In a line."""
        best = self.best
        which = {None: "best is", True: "best that fits is", False: "none fits; best is"}[best.fits]
        return (
            f"{self.model}, {len(self.rows)} schemes; {which} {best.name} with "
            f"{100 * best.accuracy:.1f} % in {best.sram_bytes:,} bytes of SRAM"
        )

    def records(self) -> list[Record]:
        """A row for each scheme."""
        return [
            {
                "name": row.name,
                "scheme": row.scheme,
                "accuracy": row.accuracy,
                "spread": row.spread,
                "interval": row.interval,
                "sram_bytes": row.sram_bytes,
                "fits": row.fits,
                "flash_bytes": row.flash_bytes,
                "instructions": row.instructions,
                "learnt": row.learnt,
                "levels": row.levels,
            }
            for row in self.rows
        ]

    def to_dict(self) -> Record:
        """With the accuracies of every seed, and the curves."""
        rows = [
            {
                **asdict(row),
                "accuracy": row.accuracy,
                "spread": row.spread,
                "interval": row.interval,
                "fits": row.fits,
            }
            for row in self.rows
        ]
        return {"model": self.model, "rows": rows, "curves": [asdict(c) for c in self.curves]}


@checked
def compare(
    model: PathLike,
    data: Data,
    schemes: Sequence[Scheme] = (),
    *,
    validation: Data | None = None,
    board: PathLike | Target | None = None,
    slots: Slots = "on",
    gate: float | None = None,
    elastic: float | None = None,
    every: Annotated[int, Within(0)] = 0,
    importance: Literal["moves", "squares"] = "moves",
    swap: Literal["", "drawn", "fisher"] = "",
    sram: Count | None = None,
    analysis: Contributions | PathLike | None = None,
    classes: Classes = "auto",
    seeds: Annotated[int, Within(1, 100)] | None = None,
    ways: int | None = None,
    shots: int | None = None,
    episodes: int | None = None,
    epochs: Count = 4,
    learning_rate: Positive | None = None,
    schedule: Literal["cosine", "constant"] = "cosine",
    warmup: Share = 0.1,
    flip: bool = False,
    crop: Annotated[int, Within(0)] = 0,
    samples: Count | None = None,
    test_samples: Count | None = None,
    test_share: TestShare = 0.2,
    stride: Count | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    pets: Sequence[str] = (),
    proxies: PathLike | None = None,
    drift: bool = False,
    jobs: Count | None = None,
    class_names: Sequence[str] = (),
    progress: Callable[[Standing], None] | None = None,
) -> Comparison:
    """Train head only, biases only, the last layers, everything, and given schemes.

    Each from 3 seeds, or as many as asked for, or in few-shot episodes: 5, or as many as asked for,
    each of `ways` classes and `shots` training samples of each, see mcutrain.data.episode.

    model: the path of an int8 file, which every process reads. data … std, class_names: as
    `simulate` takes them. schemes: more rows, "auto" is what `auto_scheme` finds. board, or sram
    (bytes of arena and state): what they are to fit in. slots: as `plan` takes it. gate: of each
    row, as `prepare` takes it. elastic … importance: as `simulate` takes them, add a row for each
    of `schemes` (or the largest that fits) that is trained so; swap, with every, one for each of
    `schemes`. pets: a row for each, as `simulate` takes pet. proxies: a folder of fronts, as
    `mcutrain proxies` wrote it, adds three rows for each of `schemes` (or the one that they were
    made for): with a gate, 0.8 or `gate`, with the fronts, and with both; others then have no gate.
    drift: of their policy, as `prepare` takes it. analysis: of `analyze`, adds the scheme that it
    selects. jobs: processes, one per CPU by default.

    An interrupted comparison continues from the cache. Raises DataError, ModelError, SchemeError,
    AnalysisError, BuildError, ArgumentError.

    >>> compare("model.int8.tflite", (x, y), ["22:0.5,bias:4"], board="nucleo-f446re").to_pandas()
    """
    if board is not None and sram is not None:
        raise ArgumentError("board and sram say the same: give one of them")
    if analysis is not None and board is None and sram is None:
        raise ArgumentError("analysis needs board or sram, for a scheme to fit in")
    if ((every and not swap) or importance != "moves") and elastic is None:
        which = "every" if every else "importance"
        raise ArgumentError(f"{which} is of rows that are elastic: give the share, too (elastic)")
    runs = Runs.of(seeds, Episodes.of(ways, shots, episodes, classes))
    ladder = Proxies.of(None if proxies is None else Path(proxies), gate, drift)
    gate = gate if ladder is None else None
    check_can_build()
    target = target_of(board, slots)
    budget = Budget(target, sram)
    settings = _settings(epochs, learning_rate, schedule, warmup, 0, flip, crop)
    graph = load(Path(model))
    split = _labelled(
        load_data(
            graph,
            data,
            test_share,
            validation=validation,
            samples=samples,
            test_samples=test_samples,
            stride=stride,
        )
    )
    fitted = runs.fitted(graph, split, classes, class_names)
    wanted, split = fitted.classes, fitted.split
    for note in fitted.notes:
        warn(note)
    candidates = usual(graph, wanted, budget)
    usual_ones = len(candidates)
    normalization = normalization_of(mean, std)
    auto, options = "", StepOptions(classes=wanted, gate=gate)
    if AUTO in schemes:
        wanted_scheme(AUTO, (), {"episodes": runs.episodes})  # or a sentence
        memory = MemoryLimit.of(target, sram)
        plan = partial(prepare, graph, options=options)
        chooser = Chooser(graph, wanted, memory, plan, options)
        auto = chooser.choose(split, normalization).scheme
    for given in schemes:
        row = as_scheme(auto if given == AUTO else given)
        candidates.append(PlannedRow(AUTO if given == AUTO else row.name, row))
    candidates += pet_rows(graph, pets, split, normalization)
    if analysis is not None:
        found = _contributions(analysis, graph)
        chosen = selected(graph, wanted, budget, found)
        candidates.append(PlannedRow("selected", chosen.scheme))
    planner = Planner(graph, options, budget, settings, runs.samples(split))
    candidates, rows = planner.rows_with(
        candidates,
        usual_ones,
        len(schemes),
        None if elastic is None else Elastic(elastic, every, importance=importance),
        Swapping(swap, every) if swap else None,
        ladder,
    )
    for note in input_notes(split, model_input(graph), normalization or "auto"):
        warn(note)
    lesson = Lesson(
        Path(model),
        tuple(c.scheme for c in candidates),
        options,
        split,
        settings,
        normalization,
        elastic=elastic_of(candidates),
        swapping=swapping_of(candidates),
        isa=budget.isa,
        episodes=runs.episodes,
        graphs=graphs_of(candidates),
        makings=makings_of(candidates),
    )
    all_runs = trials(len(rows), runs.count)
    tell = progress or (lambda status: None)
    results = dict(
        zip(all_runs, train_all(lesson, all_runs, jobs or os.cpu_count() or 1, tell), strict=True)
    )
    curves = [
        curve_of(rows[run.scheme].name, result) for run, result in results.items() if run.seed == 0
    ]
    learnt = with_results(candidates, rows, results, runs.episodes)
    return Comparison(graph.name, tuple(learnt), tuple(curves))


def _graph(model: Graph | PathLike) -> Graph:
    """With a head, or a sentence before the data is read."""
    graph = model if isinstance(model, Graph) else load(model)
    find_head(graph)
    return graph


def _found_rate(problem: Problem, epochs: int, seed: int) -> float:
    found = found_rate(problem, epochs, seed)
    warn_of_rate(found)
    return found.rate


def _labelled(split: Split) -> Split:
    if not split.is_labelled:
        raise DataError(
            "the data has no labels, which are needed to compare what is learnt: give (x, y), or "
            "save y beside the samples"
        )
    return split


def _contributions(analysis: Contributions | PathLike, graph: Graph) -> Contributions:
    if isinstance(analysis, Contributions):
        return analysis
    return read_contributions(Path(analysis), graph)


def _settings(
    epochs: int,
    learning_rate: float | None,
    schedule: str,
    warmup: float,
    seed: int,
    flip: bool,
    crop: int,
) -> RunSettings:
    """Without a learning rate one is found when training begins."""
    found = RunSettings(
        epochs=epochs, schedule=schedule, warmup=warmup, seed=seed, flip=flip, crop_pixels=crop
    )
    if learning_rate is None:
        return found
    LearningRate.of(learning_rate)  # or a sentence
    return replace(found, learning_rate=learning_rate)
