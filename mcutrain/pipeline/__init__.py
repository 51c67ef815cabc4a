"""The stages in order: model file → graph → training graph → memory plan → C project or simulation.

This module decides nothing; every stage can be called on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain_host.dataclass import dataclass

from mcutrain import codegen, formats
from mcutrain.arguments import PathLike, checked
from mcutrain.autodiff import Levels, Losses, TrainGraph, differentiate
from mcutrain.codegen import Project
from mcutrain.codegen.program import Program
from mcutrain.data import Targets
from mcutrain.errors import ONE_INPUT, ArgumentError, SchemeError
from mcutrain.features import FEATURES, correcting, rewritings, why_no_ladder
from mcutrain.formats.outputs import choosing
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.ir.op import ParameterUpdate
from mcutrain.ir.verify import verify
from mcutrain.memplan import (
    Ladder,
    Latent,
    Stream,
    TrainingPlan,
    check_board,
    find_latent,
    front,
    lay_out,
    plan_training,
    plan_with_ladder,
    tail,
    with_whole_images,
)
from mcutrain.ops.target_error import UNIT_STEPS
from mcutrain.pipeline.emphasis import weights_of
from mcutrain.pipeline.losses import (
    AUTO,
    BINARY_CROSS_ENTROPY,
    CROSS_ENTROPY,
    MEAN_SQUARED_ERROR,
    NO_DISTANCE,
    choose_loss,
    distilled,
    loss_of,
    loss_to_targets,
)
from mcutrain.pipeline.recipe import PutModules, Recipe
from mcutrain.pipeline.several import losses_text, row_losses, row_targets
from mcutrain.pipeline.step_options import ALIGN_BYTES, Part, StepOptions
from mcutrain.quant import (
    HeadStart,
    add_classes,
    gives_one_logit,
    regression_head,
    replace_by_sigmoids,
    replace_head,
)
from mcutrain.shown import Record, Shown
from mcutrain.sparse import ChannelOrder, UpdateScheme, arrange, as_scheme, find_head, heads_of
from mcutrain.sparse.leaving_out import left_out, trained_modules_only
from mcutrain.target import Target

if TYPE_CHECKING:
    from mcutrain.simulation import (
        CompiledSimulator,
        Compiler,
        LatentSimulator,
        PlannedReference,
    )

MakesLadder = Callable[[Callable[[str], Graph]], Ladder]
"""Gets what gives a step's front, by the name of its latent."""
PLAIN = StepOptions()
__all__ = [
    "ALIGN_BYTES",
    "MakesLadder",
    "Part",
    "StepOptions",
    "TrainingStep",
    "differentiated",
    "front_of",
    "in_units",
    "load",
    "prepare",
    "with_head",
]


@dataclass(frozen=True, repr=False)
class TrainingStep(Shown):
    """A model, what of it is trained, and the planned step that does it.

    graph: as the model has it, but for modules that are not trained. order: how the step's graph
    orders the channels instead. recipe: how `prepare` made it from the model, if it did. A tail's
    front is not in the plan. left_out: names of the model's modules that are not in the graph.
    stream: what was asked to compute row by row.
    """

    graph: Graph
    scheme: UpdateScheme
    plan: TrainingPlan
    order: ChannelOrder
    recipe: Recipe | None = None
    left_out: tuple[str, ...] = ()
    stream: Stream = "auto"

    @property
    def input_type(self) -> TensorType:
        """Type of what a step begins with: a sample, or the latent of a tail."""
        return self.plan.training.input_type

    def summary(self) -> str:
        """Return a line that describes it."""
        learns = self.plan.training
        what = learns.learns
        return (
            f"{self.graph.name}, scheme {self.scheme.name}, {what}, {len(self.plan.nodes)} nodes, "
            f"{self.plan.arena_bytes:,} bytes of arena, {self.plan.state_bytes:,} of state"
        )

    def records(self) -> list[Record]:
        """A row for each node of the step, in the order of execution."""
        tensors = self.plan.training.graph.tensors
        return [
            {
                "node": node.name,
                "operator": type(node.op).__name__,
                "output": "×".join(map(str, tensors[node.outputs[0]].type.shape))
                if node.outputs and node.outputs[0] in tensors
                else "",
            }
            for node in self.plan.nodes
        ]

    @cached_property
    def model_hash(self) -> int:
        """What the step's saved states and firmware say of it."""
        return int(Program(self.plan).model_hash, 16)

    @cached_property
    def project(self) -> Project:
        """The C project."""
        return codegen.generate(self.plan, self.scheme.name, recipe=self._recipe())

    def library(self, interface: codegen.Interface) -> Project:
        """The C project under names of the caller's choice. Raises McutrainError."""
        return codegen.generate(
            self.plan, self.scheme.name, recipe=self._recipe(), interface=interface
        )

    def firmware(self, target: Target, interface: codegen.Interface | None = None) -> Project:
        """The C project of a board's firmware. Raises PlanError if it does not fit.

        Raises TargetError for a board without firmware, which has a package instead.
        """
        target.check_firmware()
        names = interface or codegen.Interface()
        check_board(self.plan, codegen.with_latents(target, self.plan, names))
        return codegen.generate(self.plan, self.scheme.name, target, self._recipe(), names)

    def for_this_computer(self) -> TrainingStep:
        """Plan the step for a computer that need not save memory; its bits stay the same.

        It keeps whole images, unless something else than auto was asked for or there is a proxy
        cascade.
        """
        if self.stream != "auto" or self.plan.ladder is not None or not self.plan.segments:
            return self
        return replace(self, plan=with_whole_images(self.plan))

    def of_model(self, put: PutModules | None) -> TrainingStep:
        """Add to the recipe which modules were put into the model, if some were."""
        if put is None or self.recipe is None:
            return self
        recipe = replace(self.recipe, model=put.model, pet=put.pet, numbers=put.numbers)
        return replace(self, recipe=recipe)

    def _recipe(self) -> dict[str, Any] | None:
        """Without names, which change nothing: a manifest has them beside it."""
        if self.recipe is None:
            return None
        unnamed = replace(self.recipe.options, class_names=())
        return replace(self.recipe, options=unnamed).to_dict()

    def simulator(
        self, seed: int = 1, compiler: Compiler | None = None, portable: bool = False
    ) -> CompiledSimulator:
        """The C project, compiled for this machine and loaded."""
        from mcutrain.simulation import CompiledSimulator  # what only plans does without

        return CompiledSimulator(
            self.plan, self.scheme.name, seed, compiler, portable, project=self.project
        )

    def latent_simulator(
        self, latent: Latent, seed: int = 1, portable: bool = False
    ) -> LatentSimulator:
        """Compile functions that begin with the latent; the simulator takes latents for samples."""
        from mcutrain.simulation import LatentSimulator

        project = self.library(codegen.Interface(latent=latent.tensor))
        return LatentSimulator(self.plan, latent, project, seed, portable=portable)

    def reference(self, seed: int = 1) -> PlannedReference:
        """Make the same step in numpy, with the same saved state."""
        from mcutrain.simulation import reference_of

        return reference_of(self.plan, seed)


@checked
def load(path: PathLike, output: str | None = None) -> Graph:
    """Read an int8 `.tflite` or QDQ `.onnx` file as a verified graph.

    path: a text or a path. output: the name of the output that is meant, of a file with several.
    Raises ModelError, UnsupportedError for what it does not know.

    >>> load("model.int8.tflite")
    """
    with choosing(output):
        return verify(formats.load(Path(path)))


@checked
def prepare(
    model: Graph | PathLike,
    scheme: UpdateScheme | PathLike = "head",
    options: StepOptions = PLAIN,
    *,
    ladder: Ladder | MakesLadder | None = None,
    head_start: HeadStart | None = None,
    head_seed: int = 0,
    stream: Stream = "auto",
    report: Callable[[int, int], None] = lambda nodes, of: None,
) -> TrainingStep:
    """Return the planned training step of a model under an update scheme.

    scheme: an UpdateScheme, or what parse_scheme reads.
    options: all else that a trained state depends on. A new classifier (classes) learns at the
        scheme's head_rate, by default NEW_HEAD_RATE (see UpdateScheme).
    ladder: fronts of a proxy cascade, of which a policy takes one for each sample (see
        mcutrain.memplan.Ladder); or what makes or reads them for this step's own front.
    head_start: what a new classifier starts from instead of zeros, see mcutrain.runs.head_start.
    head_seed: rounds the weights of added classes.
    stream: what is computed row by row, so that images never lie in memory as a whole. least: as
        much as makes the arena smallest. off: nothing. max: what makes the front smallest. auto
        plans as least does. Where the memory is known, `plan` and `generate` then compute less row
        by row (mcutrain.cost.streaming), and a long run on this computer keeps whole images.
    report: called during a search for a smaller arena, which can take 20 seconds, with the nodes
        done and the most there can be.

    Raises ModelError, SchemeError, PlanError, ArgumentError.

    >>> prepare("model.int8.tflite", "last:3", StepOptions(classes=10)).plan.sram_bytes
    """
    chosen, model = as_scheme(scheme), model if isinstance(model, Graph) else load(model)
    if len(model.inputs) > 1:
        raise SchemeError(f"{model.name!r} has {len(model.inputs)} inputs; {ONE_INPUT}")
    chosen = chosen.with_usual_rate(is_new_head=options.classes is not None)
    given = with_head(model, options, head_start)
    graph = trained_modules_only(given, chosen)
    without = left_out(given, graph)
    if options.added:
        graph = add_classes(graph, find_head(graph).node, len(options.added), head_seed)
    names = _names(given, options.added, options.class_names)
    graph = replace(graph, class_names=names)
    for feature in FEATURES:
        if feature.check is not None:
            feature.check(options, graph, chosen)
    options, made_loss = _with_loss(graph, options)
    order, training = differentiated(graph, chosen, options, made_loss)
    if head_start is not None:
        training = training.with_first_outputs(head_start.reach)
    for feature in FEATURES:
        if feature.check_made is not None:
            feature.check_made(options, training, chosen)
    made = _made(ladder, partial(_front_of, training, options.align_bytes))
    options = replace(options, class_names=names, levels=_levels(made, options))
    if options.part == "tail":
        whole = lay_out(training, options.align_bytes, stream)
        cut = find_latent(whole, options.latent)
        training, options = tail(whole.training, cut), replace(options, latent=cut.tensor)
    training = replace(training, levels=options.levels)
    plan = _planned(training, made, options.align_bytes, stream, report)
    recipe = Recipe(chosen, options, graph_digest(model), model.name, frontend=frontend_text(graph))
    return TrainingStep(graph, chosen, plan, order, recipe, without, stream)


def _with_loss(graph: Graph, options: StepOptions) -> tuple[StepOptions, Losses]:
    """The options with the loss that is meant, and what makes its operator. Raises SchemeError."""
    weights, smoothing = weights_of(options.class_weights), options.label_smoothing
    if graph.row or options.losses:
        options = _with_row(graph, options)
        assert options.targets is not None
        return replace(options, loss=AUTO), row_losses(graph, options.targets)
    if options.targets is None:
        loss: str = choose_loss(graph, options.loss)
        options = replace(options, loss=loss)
        if options.distill:
            return options, distilled(graph, loss, options)
        return options, loss_of(graph, loss, weights, smoothing)
    if options.distill:
        raise SchemeError(NO_DISTANCE.format("a model of real targets"))
    loss = MEAN_SQUARED_ERROR if options.loss == AUTO else options.loss
    made = loss_to_targets(graph, loss, options.targets, weights, smoothing)
    return replace(options, loss=loss), made


def _with_row(graph: Graph, options: StepOptions) -> StepOptions:
    """The options with what each of several outputs learns. Raises SchemeError for one output."""
    if not graph.row:
        raise SchemeError(
            f"losses of outputs are given ({options.losses[:60]!a}), but {graph.name!r} is read "
            "with one output: name those that are trained together (--model-output NAME,NAME)"
        )
    without = {
        "class_weights": options.class_weights,
        "label_smoothing": options.label_smoothing,
        "distill": options.distill,
        "gate": options.gate is not None,
        "added classes": options.added,
    }
    said = next((name for name, value in without.items() if value), None)
    if said is not None:
        raise SchemeError(
            f"several outputs are trained without {said}: leave that out, or name one output "
            "(--model-output)"
        )
    targets = options.targets or row_targets(graph, options.losses)
    return replace(options, targets=targets, losses=losses_text(targets))


def in_units(
    updates: Mapping[str, ParameterUpdate], graph: Graph, targets: Targets
) -> dict[str, ParameterUpdate]:
    """The head's parameters learn as if they were in units of the loss, see RealTargetError.

    The loss is in units, so what is before the head learns alike whatever the target's own unit is.
    """
    of_heads = [part.targets for part in targets.parts] or [targets]
    found = dict(updates)
    for head, own in zip(heads_of(graph), of_heads, strict=True):
        square = 1.0 if own is None else (UNIT_STEPS * own.scale) ** 2
        for name in {head.weight, head.bias} & found.keys():
            update = found[name]
            found[name] = replace(update, rate=tuple([square * r for r in update.rate]))
    return found


def frontend_text(graph: Graph) -> str:
    """Return what makes samples of raw ones, as a text; empty for nothing."""
    order = graph.input_order
    return "" if order is None or order.frontend is None else order.frontend.text


def front_of(step: TrainingStep, latent: str = "auto") -> Graph:
    """Return what makes the latents of samples for a tail: an int8 network, for any runtime.

    step: of the whole network, with the scheme of the tail, since the channels of the latent are in
    the order of the trained graph. latent: as `prepare` takes it for the tail. Raises PlanError.
    """
    return front(step.plan.training, find_latent(step.plan, latent))


def with_head(graph: Graph, options: StepOptions, start: HeadStart | None = None) -> Graph:
    """Return the model with a new head of so many outputs, or with its own."""
    if graph.row and (options.classes is not None or start is not None):
        raise SchemeError("several outputs keep their heads: leave out classes and head_start")
    classes, targets = options.classes, options.targets
    if classes is not None and targets is not None:
        if start is not None:
            raise SchemeError("a new head for real targets begins at their mean: leave out a start")
        begin = [y - targets.offset for y in targets.start]
        return regression_head(
            graph, find_head(graph).node, begin, targets.scale, targets.zero_point
        )
    is_one = classes == 2 and gives_one_logit(graph, find_head(graph).node)
    is_binary = options.loss == BINARY_CROSS_ENTROPY and not is_one
    if classes is not None and start is None and is_binary:
        return replace_by_sigmoids(graph, find_head(graph).node, classes)
    if classes is not None:
        return replace_head(graph, find_head(graph).node, classes, start)
    if start is not None:
        raise SchemeError(
            "the model's own classifier stays, so it cannot start from class means: give the "
            "number of classes of a new one, too (classes)"
        )
    return graph


def _names(graph: Graph, added: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Names of the outputs: the given ones, or the graph's own and the added ones."""
    own = (*graph.class_names, *added) if graph.class_names else ()
    return tuple(given) or own


def _made(ladder: Ladder | MakesLadder | None, front_of: Callable[[str], Graph]) -> Ladder | None:
    """The cascade for a step's front, if there is one."""
    return ladder if ladder is None or isinstance(ladder, Ladder) else ladder(front_of)


def _levels(ladder: Ladder | None, options: StepOptions) -> Levels | None:
    """Return what the state knows of a proxy cascade, which may not be at hand."""
    if ladder is None and options.levels is None and why_no_ladder(options):
        raise ArgumentError(why_no_ladder(options))
    if ladder is None:
        return options.levels
    return Levels(ladder.levels, ladder.digest, any(correcting(options)))


def _planned(
    training: TrainGraph,
    ladder: Ladder | None,
    align_bytes: int,
    stream: Stream,
    report: Callable[[int, int], None],
) -> TrainingPlan:
    """Plan the step with a proxy cascade, or without."""
    if ladder is None:
        return plan_training(training, align_bytes, stream=stream, report=report)
    return plan_with_ladder(training, ladder, align_bytes, stream, report)


def _front_of(training: TrainGraph, align_bytes: int, latent: str) -> Graph:
    """Find the front before the step is planned."""
    whole = lay_out(training, align_bytes, "off")
    return front(whole.training, find_latent(whole, latent))


def differentiated(
    graph: Graph,
    scheme: UpdateScheme,
    options: StepOptions,
    loss: Losses | None = None,
) -> tuple[ChannelOrder, TrainGraph]:
    """The graph with the trained channels in front, and its training step.

    loss: None is the cross-entropy that the head takes.
    """
    loss = loss_of(graph, CROSS_ENTROPY) if loss is None else loss
    order, updates = arrange(scheme, graph)
    head = find_head(graph).name
    if options.targets is not None:
        updates = in_units(updates, order.graph, options.targets)
    return order, differentiate(order.graph, head, updates, loss, options, rewritings(options))
