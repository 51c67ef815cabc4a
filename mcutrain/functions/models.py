"""Model files: compared with their own runtime and with each other, written again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.saved import SavedState

from mcutrain.arguments import Count, PathLike, Seed, Within, checked
from mcutrain.data import Data, Normalization, Split, order
from mcutrain.errors import ArgumentError, ModelError, StateError
from mcutrain.formats import (
    format_of,
)
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.keywords import flag_name, flags_of, given_of, with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.options import StepRequest
from mcutrain.functions.preparing import HEAD, Asked, Scheme
from mcutrain.functions.run_options import ReadingOptions
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.modules import merged
from mcutrain.oracle.forward import Agreement, Verdict, draw_inputs
from mcutrain.oracle.forward import compare as compare_with_runtime
from mcutrain.pipeline import TrainingStep, load
from mcutrain.pipeline.recipe import Recipe, contradiction, of_json
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.trained import (
    Changes,
    Export,
    compare_models,
    model_of,
    step_of,
    trained_by,
    trained_graph,
    trained_in,
)
from mcutrain.trained import export as write_trained
from mcutrain.trained.state import SavedRun, is_state, read_state

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
UNKNOWN = (
    "{} does not say how it was trained: give step, of `prepare`, or scheme and all else that it "
    "was trained with"
)
UNKNOWN_FILE = (
    "{} does not say how it was trained; give --scheme and the other flags of the training, or "
    "--state with the checkpoint or the project"
)
COMPARED = 20
"""Inputs on which a model is compared with itself before its modules were merged."""


@with_keywords
@checked
def verify(
    model: PathLike,
    data: Data | None = None,
    *,
    samples: Count = 200,
    reference_samples: Annotated[int, Within(0)] = 20,
    seed: Seed = 0,
    reading: ReadingOptions = ReadingOptions(),
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Verdict:
    """Compare the forward pass, as numpy and as C, with TFLite's reference kernels or onnxruntime.

    data: its test samples are compared, as `simulate` takes it, drawn by seed of every class alike.
        Without data, inputs are random.
    samples: how many. reading: how the data are read; its fields are keywords, too.
    reference_samples: how many of them numpy computes, too, which is slow.

    `is_right` of the result is False if an output of a .tflite file differs. Raises ModelError,
    DataError; McutrainError if the runtime is not installed.

    >>> verify("model.int8.tflite").is_right
    """

    def made(graph: Graph) -> Array:
        split = read_samples(graph, data, reading.drawn(), Asked(), seed, listener)
        return inputs_of(graph, split, reading.normalization, samples, seed)

    real = None if data is None else made
    with listener.counting("verify") as tell:
        tell = progress or tell
        return compare_with_runtime(Path(model), samples, reference_samples, seed, tell, real)


def inputs_of(
    graph: Graph, split: Split, normalization: Normalization | None, most: int, seed: int
) -> Array:
    """Test samples as the model's int8 input, at most so many, drawn of every class alike.

    They are mixed, because the numpy reference computes the first ones only.
    """
    x = model_input(graph)
    test = split.test.drawn(min(most, len(split.test)), seed)
    test = test.take(order(len(test), 0, seed))
    bare = replace(split, test=test).without_labels()
    made = prepare_samples(bare, RunSettings(), x, normalization=normalization)
    # a step takes a sequence as an image of one row; inputs are as the graph has them
    return made.test(0, len(test)).reshape(len(test), *x.shape)


@checked
def diff(first: Graph | PathLike, second: Graph | PathLike) -> Changes:
    """Compare the weights and biases of two models by name: which differ, and by how much.

    first, second: paths of .tflite or .onnx files, or graphs. One of them may be what was trained
        of the other: a checkpoint, a .mcts file, a project.

    Largest and mean are differences of the stored integers, in units of the scale. Raises
    ModelError, StateError.

    >>> diff("model.int8.tflite", "trained.tflite").to_pandas()
    """
    states = [not isinstance(given, Graph) and is_state(Path(given)) for given in (first, second)]
    if all(states):
        raise ArgumentError(f"{first} and {second} are both states: give the model and one state")
    if states[0]:
        return compare_models(*reversed(_beside_trained(second, first)))
    if states[1]:
        return compare_models(*_beside_trained(first, second))
    a, b = (given if isinstance(given, Graph) else load(given) for given in (first, second))
    return compare_models(a, b)


def _beside_trained(model: Graph | PathLike, state: Graph | PathLike) -> tuple[Graph, Graph]:
    """Return what was trained, and what became of it."""
    assert not isinstance(state, Graph), "a state is a file"
    own = model if isinstance(model, Graph) else load(model)
    return _trained(own, state, _How(Asked()))


@with_keywords
@checked
def export(
    model: PathLike,
    output: PathLike,
    state: SimulationResult | PathLike | bytes | None = None,
    *,
    step: TrainingStep | None = None,
    scheme: Scheme | None = None,
    classes: Count | None = None,
    request: StepRequest = StepRequest(),
    merge: bool = False,
) -> Export:
    """Write the trained model: the original's file with its trained weights and biases.

    model: the file that was trained.
    output: a .tflite or .onnx file.
    state: what `simulate` or `train` returned, a checkpoint, a .mcts file, a project that a board
        was trained with, or the saved bytes. None writes the model as it is.
    step: how it was trained, if the state does not say so itself (bytes, and .mcts files outside of
        a project). scheme, classes, request say the same as `plan` takes them.
    merge: fold low-rank updates and gains into the layers that they stand at. That changes outputs
        a little; `merged` of the result says by how much.

    Raises StateError if the state is damaged, or of another model, scheme or way of training.
    Raises ModelError; ArgumentError where the output is the model's own file.

    >>> export("model.int8.tflite", "trained.tflite", result)
    """
    names = {name: flag_name(name, flag) for name, flag in flags_of(StepRequest).items()}
    given = [names[name] for name in given_of(request)]
    given += ["--scheme"] if scheme is not None else []
    given += ["--classes"] if classes is not None else []
    how = _How(Asked.of(request, scheme or HEAD), classes, tuple(given), step)
    return _exported(Path(model), Path(output), state, how, is_merged=merge)


def export_file(
    model: Path,
    output: Path,
    state: Path | None,
    asked: Asked,
    classes: int | None,
    given: Sequence[str],
    *,
    is_merged: bool = False,
) -> Export:
    """Write what a file's state trained. given: flags of the training, also those as by default.

    asked, classes: what these flags say, of a state that does not say it itself. Raises as
    `export`.
    """
    how = _How(asked, classes, tuple(given))
    return _exported(model, output, state, how, is_merged=is_merged)


@dataclass(frozen=True)
class _How:
    """How a state was trained, as far as somebody says it. given: the flags that are said."""

    asked: Asked
    classes: int | None = None
    given: tuple[str, ...] = ()
    step: TrainingStep | None = None

    def trained(self, run: SavedRun, own: Graph) -> tuple[Graph, Graph]:
        """Return the graph that a file's state was trained from, and the trained one.

        own: of the model's file. Raises StateError where the state contradicts what is said.
        """
        if self.step is not None:
            return own, trained_in(run, step_of(own, _recipe_of(self.step)), own)
        if run.recipe is not None:
            self._check(run, run.recipe)
            return trained_by(run, run.recipe, own)
        if not {"--scheme", "--pet"} & set(self.given):
            run.check()
            raise StateError(UNKNOWN_FILE.format(run.where))
        return own, trained_in(run, self.asked.prepare(own, self.classes), own)

    def step_for(self, own: Graph, where: str) -> TrainingStep:
        """Return the step of a state that does not say how it was trained. Raises StateError."""
        if self.step is not None:
            return step_of(own, _recipe_of(self.step))
        if not {"--scheme", "--pet"} & set(self.given):
            raise StateError(UNKNOWN.format(where))
        return self.asked.prepare(own, self.classes)

    def _check(self, run: SavedRun, kept: Recipe) -> None:
        said = self.asked.recipe(self.classes)
        if kept.pet and "--pet" not in self.given:
            said = replace(said, pet=kept.pet)
        found = contradiction(kept, said, self.given)
        if found:
            raise StateError(
                f"{run.where} was trained with {found}: leave out the flags of the training, "
                "the state has its own"
            )


def _exported(
    model: Path,
    output: Path,
    state: SimulationResult | PathLike | bytes | None,
    how: _How,
    *,
    is_merged: bool,
) -> Export:
    format_of(output)
    check_export(model, output)
    own = load(model)
    (original, trained), text = _trained(own, state, how), ""
    if is_merged:
        trained, text = merged_model(trained)
    is_put = len(original.nodes) != len(own.nodes)
    return write_trained(model, original, trained, output, merged=text, has_modules_put=is_put)


def check_export(model: Path, output: Path) -> None:
    """Raise ArgumentError where a trained model would take the place of the original.

    States are of a model; without it nothing reads them.
    """
    check_other_file(model, output, "which states of its training belong to", "the trained one")


def check_other_file(model: Path, output: Path, use: str, what: str) -> None:
    """Raise ArgumentError where the output is the model's own file.

    use: of the model, for which it stays; what: is written.
    """
    if output.exists() and model.exists() and output.samefile(model):
        raise ArgumentError(f"{output} is the model itself, {use}: give another file for {what}")


def merged_model(graph: Graph, seed: int = 0) -> tuple[Graph, str]:
    """The graph with its modules merged, and in a sentence how weights and outputs changed.

    Outputs are compared on COMPARED inputs that are made up. Raises SchemeError if nothing can be
    merged.
    """
    found = merged(graph)
    x = draw_inputs(graph, COMPARED, seed)
    outputs = [
        np.concatenate([interpret(g, {g.inputs[0]: one[None]})[g.outputs[0]] for one in x])
        for g in (graph, found.graph)
    ]
    agreement = Agreement.between("", outputs[1], "", outputs[0])
    same = 100 * agreement.same_class
    text = (
        f"{found.text}; on {COMPARED} made-up inputs {agreement.differing:,} of "
        f"{agreement.outputs:,} outputs differ, by {agreement.largest} steps at most and "
        f"{agreement.mean:.2g} in the mean, with the same class in {same:.0f} %"
    )
    return found.graph, text


def _trained(
    own: Graph, state: SimulationResult | PathLike | bytes | None, how: _How
) -> tuple[Graph, Graph]:
    """Return what was trained, the model's graph or that with modules, and the trained one."""
    if state is None:
        return own, own
    if not isinstance(state, SimulationResult | bytes):
        return how.trained(read_state(Path(state)), own)
    where, text = "the state", "" if isinstance(state, bytes) else state.recipe
    try:
        saved = SavedState.parse(state if isinstance(state, bytes) else state.saved, where)
    except HostError as error:
        raise StateError(str(error)) from error
    if how.step is not None or not (text or saved.recipe):
        return own, trained_graph(how.step_for(own, where), saved.raw, own, where)
    recipe = of_json(text or saved.recipe, where)
    original = model_of(own, recipe, where)
    found = trained_graph(step_of(original, recipe), saved.raw, original, where)
    return replace(original, name=own.name), replace(found, name=own.name)


def _recipe_of(step: TrainingStep) -> Recipe:
    """Return how `prepare` made it. Raises ModelError."""
    if step.recipe is None:
        raise ModelError(
            "the step was not made by `prepare`, so its model file is not known: give a step of "
            "`prepare`"
        )
    return step.recipe
