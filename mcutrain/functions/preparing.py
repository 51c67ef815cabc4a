"""From what is asked for to a training step: a scheme, its options, and the step itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain import pipeline
from mcutrain.arguments import Count, PathLike, checked
from mcutrain.autodiff import Levels
from mcutrain.data import InputOrder, as_names
from mcutrain.features import correcting
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.options import (
    LearningRequest,
    Modules,
    PreparedRequest,
    ProxyCascade,
    StepRequest,
    StreamRequest,
)
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, Stream
from mcutrain.modules import parse_pet
from mcutrain.pipeline import MakesLadder, StepOptions, TrainingStep
from mcutrain.pipeline.emphasis import BALANCED
from mcutrain.pipeline.losses import Fitted, weights_for
from mcutrain.pipeline.recipe import PutModules, Recipe
from mcutrain.quant import HeadStart
from mcutrain.sparse import UpdateScheme, as_scheme

Scheme = UpdateScheme | PathLike
HEAD = "head"
CHANGES = ("qas", "residual_bits", "head_residual_bits", "head_rate", "bias_bits", "update_rule")
"""Fields of a request that change the scheme; None leaves it as it is."""
Report = Callable[[int, int], None]
"""Called during a search for a smaller arena, with the nodes so far and the most there can be."""


@dataclass(frozen=True)
class Asked:
    """A training step that is asked for.

    scheme: as it was given or chosen. request: how it learns. options: the same, as a step is made
    with it, but for the classes of a new head, which the data may decide. put: modules that were
    put into the model, which its file does not have.
    """

    scheme: Scheme = HEAD
    request: LearningRequest = StepRequest()
    options: StepOptions = StepOptions(loss="auto")
    put: PutModules | None = None

    @staticmethod
    def of(request: LearningRequest, scheme: Scheme = HEAD, **more: Any) -> Asked:
        """What a request asks for. more: other fields of StepOptions. Raises McutrainError."""
        names = {field.name for field in fields(StepOptions)}
        own = {f.name: getattr(request, f.name) for f in fields(request) if f.name in names}
        own["added"] = as_names(own.get("added", ()))
        return Asked(scheme, request, StepOptions(**{**own, **more}))

    @property
    def pet(self) -> str | None:
        """Modules that are trained besides."""
        return self.request.pet if isinstance(self.request, Modules) else None

    @property
    def proxies(self) -> Path | None:
        """The folder of a proxy cascade."""
        given = self.request.proxies if isinstance(self.request, ProxyCascade) else None
        return None if given is None else Path(given)

    @property
    def stream(self) -> Stream:
        """What computes row by row."""
        return self.request.stream if isinstance(self.request, StreamRequest) else "auto"

    def having(self, **changes: Any) -> Asked:
        """Ask for the same with other options."""
        return replace(self, options=replace(self.options, **changes))

    def fitted(
        self, graph: Graph, fitted: Fitted, note: Callable[[str], None] = lambda _: None
    ) -> Asked:
        """Ask for the same with the loss, targets, names and weights of classes that data says."""
        weights = self.options.class_weights
        if weights == BALANCED:
            weights = weights_for(graph, fitted, len(self.options.added))
            note(f"--class-weights balanced is {weights}, by the labels of the training samples")
        return self.having(
            loss=fitted.loss,
            class_names=fitted.class_names,
            class_weights=weights,
            targets=fitted.targets,
        )

    def as_learnt(self, scheme: Scheme | None, classes: int | None) -> tuple[Asked, int | None]:
        """Ask for real targets, and their head, where the run of a saved state learnt them."""
        if scheme is None or isinstance(scheme, UpdateScheme):
            return self, classes
        recipe = _recipe_of(Path(scheme))
        if recipe is None or recipe.options.targets is None:
            return self, classes
        of_run = recipe.options
        return self.having(loss=of_run.loss, targets=of_run.targets), of_run.classes

    def update_scheme(self) -> UpdateScheme:
        """Return what is trained, with what the request changes. Raises SchemeError, StateError."""
        scheme = scheme_of(self.scheme)
        changes = {name: getattr(self.request, name) for name in CHANGES}
        changes["qas"] = changes["qas"] and scheme.qas
        if changes["residual_bits"] is not None:
            changes["layer_residual_bits"] = {}
        scheme = replace(scheme, **{k: v for k, v in changes.items() if v is not None})
        return scheme if self.pet is None else parse_pet(self.pet).scheme(scheme)

    def recipe(self, classes: int | None) -> Recipe:
        """Write it as a recipe, to compare with one. Proxies are written as a number of fronts."""
        options = replace(self.options, classes=classes)
        if self.proxies is not None:
            from mcutrain.proxies import read_facts  # few steps have them

            count = 1 + read_facts(self.proxies)["proxies"]
            options = replace(options, levels=Levels(count, "", any(correcting(options))))
        return Recipe(self.update_scheme(), options, pet=self.pet or "")

    def prepare(
        self,
        graph: Graph,
        classes: int | None,
        head_seed: int = 0,
        head_start: HeadStart | None = None,
        report: Report = lambda nodes, of: None,
    ) -> TrainingStep:
        """The planned step. classes: of a new head, None keeps the model's own.

        head_seed … report: as mcutrain.pipeline.prepare takes them.
        """
        return pipeline.prepare(
            graph,
            self.update_scheme(),
            replace(self.options, classes=classes),
            ladder=None if self.proxies is None else _kept_ladder(self.proxies),
            head_start=head_start,
            head_seed=head_seed,
            stream=self.stream,
            report=report,
        ).of_model(self.put)


def with_frontend(graph: Graph, text: str) -> Graph:
    """The model with the front end that a text or file says; as it is for none.

    Raises DataError if it does not fit, or if the model's file says another.
    """
    if not text:
        return graph
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    order = graph.input_order or InputOrder.own(shape, graph.name)
    return replace(graph, input_order=order.with_frontend(text))


def scheme_of(given: Scheme) -> UpdateScheme:
    """Return what `parse_scheme` reads, or what the run of a checkpoint or a state trained.

    Raises SchemeError, StateError.
    """
    recipe = None if isinstance(given, UpdateScheme) else _recipe_of(Path(given))
    return as_scheme(given) if recipe is None else recipe.scheme


def _recipe_of(path: Path) -> Recipe | None:
    """Return what the run of a checkpoint or a state learnt by; None of what is none."""
    if not path.is_file():
        return None
    from mcutrain.trained.state import is_state, read_state  # most schemes are no file

    return read_state(path).recipe if is_state(path) else None


def _kept_ladder(folder: Path) -> MakesLadder:
    from mcutrain.proxies import kept_ladder  # few steps have one

    return kept_ladder(folder)


def left_out_note(step: TrainingStep) -> str:
    """Return a sentence on modules of the model that are not trained; empty if all are."""
    if not step.left_out:
        return ""
    return (
        f"{len(step.left_out)} modules of the model are not trained and have learnt nothing: they "
        "are left out"
    )


@with_keywords
@checked
def prepare(
    model: Graph | PathLike,
    scheme: Scheme = HEAD,
    *,
    classes: Count | None = None,
    request: PreparedRequest = PreparedRequest(loss="cross-entropy"),
    head_seed: int = 0,
    head_start: HeadStart | None = None,
    ladder: Ladder | MakesLadder | None = None,
    class_names: Sequence[str] = (),
    report: Report = lambda nodes, of: None,
) -> TrainingStep:
    """Plan the training step of a model under an update scheme.

    scheme: an UpdateScheme or what parse_scheme reads. classes: replaces the classifier by a new
    one with so many outputs; None keeps the model's own. A new one learns at the scheme's
    head_rate, by default NEW_HEAD_RATE (see UpdateScheme). request: how the step learns; its fields
    are keywords, too, and mcutrain.functions.options explains each. loss is cross-entropy by
    default. stream auto plans as least does, for only where a memory is known `plan` and `generate`
    compute less row by row. head_start: what a new classifier starts from instead of
    zeros, see mcutrain.runs.head_start. head_seed: rounds the weights of added classes. ladder:
    fronts of which a policy takes one for each sample (see mcutrain.memplan.Ladder), or what makes
    or reads them for this step's own front, instead of a folder (proxies). class_names: of its
    outputs; by default the model's own and the added ones, if the classifier stays. They change
    nothing that is computed. report: called during a search for a smaller arena, which can take 20
    seconds, with the nodes so far and the most there can be.

    Raises ModelError, SchemeError, PlanError, ArgumentError.

    >>> prepare("model.int8.tflite", "last:3", classes=10).plan.sram_bytes
    """
    asked = Asked.of(request, scheme, class_names=tuple(class_names), classes=classes)
    if ladder is None and asked.proxies is not None:
        ladder = _kept_ladder(asked.proxies)
    return pipeline.prepare(
        model,
        asked.update_scheme(),
        asked.options,
        ladder=ladder,
        head_start=head_start,
        head_seed=head_seed,
        stream=request.stream,
        report=report,
    )
