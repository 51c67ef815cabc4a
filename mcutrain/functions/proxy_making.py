"""Cheaper fronts for easy samples, and the policy that chooses among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.data import AtMost, Data
from mcutrain.functions.chosen import named, read_samples
from mcutrain.functions.files import check_writable_folder
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.preparing import HEAD, Asked, Scheme
from mcutrain.functions.run_options import PROXY_SAMPLES, LevelOptions, UnlabelledReading
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.pipeline import prepare as prepared
from mcutrain.proxies import MadeLadder, check_folder, make_ladder, write_ladder
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings, check_can_build

DEAR = (
    "policy and fronts cost more than the whole front does for every sample: a larger --delta or a "
    "lower --threshold makes cheaper ones, less near"
)
"""What is said of proxies that save nothing."""


@with_keywords
@checked
def make_proxies(
    model: Graph | PathLike,
    data: Data,
    output: PathLike,
    scheme: Scheme = HEAD,
    *,
    latent: str = "auto",
    wanted: LevelOptions = LevelOptions(),
    reading: UnlabelledReading = UnlabelledReading(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> MadeLadder:
    """Make cheaper fronts for easy samples (a proxy cascade), and the policy that chooses.

    It rarely pays: keep latents where samples come again. docs/commands.md says when it may. What
    lies before the latent is pruned, fitted and trained for the whole front's latents, and
    quantized like these, so that one tail serves all levels.

    data: as `simulate` takes it; labels do nothing. output: the folder to write, for proxies= of
    `simulate`, `generate` and others with this model and scheme. latent: what the fronts make: auto
    or a tensor's name. wanted: how many fronts, and how near. Fields of wanted and reading are
    keywords, too; mcutrain.functions.run_options explains each.

    Raises ModelError, SchemeError, PlanError where nothing can be pruned or a level is not as near
    as was asked for, DataError, ArgumentError, BuildError.

    >>> make_proxies("model.int8.tflite", (x, y), "ladder", "last:6").to_pandas()
    """
    settings, folder = wanted.settings, Path(output)
    check_folder(folder)
    check_writable_folder(folder)
    check_can_build()  # fail before the data is read
    graph = named(loaded(model, listener), reading)
    step = prepared(graph, scheme)
    found = find_latent(step.plan, latent)
    x = _inputs(graph, step, data, reading, seed, listener)
    with listener.counting("proxies") as tell:
        made = make_ladder(step, found, x, settings, tell)
    where = "" if isinstance(model, Graph) else str(model)
    facts = {"model": where, "scheme": step.scheme.name, "isa": USUAL_ISA, **made.facts()}
    write_ladder(made.ladder, folder, made.front, facts)
    if made.mean_instructions >= 1:
        listener.note(DEAR)
    return made


def _inputs(
    graph: Graph,
    step: TrainingStep,
    data: Data,
    reading: UnlabelledReading,
    seed: int,
    listener: Listener,
) -> Any:
    """The training samples as the step takes them, int8."""
    asked = AtMost(PROXY_SAMPLES) if reading.samples is None else reading.samples
    split = read_samples(graph, data, reading.drawn(asked, 1), Asked(), seed, listener)
    bare, normalization = split.without_labels(), reading.normalization
    own = prepare_samples(bare, RunSettings(), model_input(step), normalization=normalization)
    return own.quantized(own.split.train.x)
