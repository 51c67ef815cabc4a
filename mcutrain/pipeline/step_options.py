"""What a training step is made with, besides a model and a scheme: one value, in all files alike.

Projects, checkpoints and saved states carry it in their recipe. A new option is a field here, or of
TrainOptions where the differentiation needs it; files have it under the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Literal

from mcutrain_host.dataclass import dataclass
from mcutrain_host.json_values import ValuesError, from_values

from mcutrain.arguments import Within, check_fields
from mcutrain.autodiff import Levels, TrainOptions
from mcutrain.data import Targets
from mcutrain.errors import ArgumentError
from mcutrain.features import FeatureOptions, following, rewritings
from mcutrain.pipeline.emphasis import BALANCED, weights_of

Part = Literal["whole", "tail"]
"""Which part of a network's training step: all of it, or what lies behind the latent."""
AUTO = "auto"
MOST_LEVELS = 16
MOST_ACCUMULATED = 65535
ALIGN_BYTES = {"int8": 4, "int16": 8}  # of buffers: sums of int16 gradients are int64
OPTIONAL = (
    *("levels", "class_names", "class_weights", "label_smoothing", "distill", "losses"),
    "targets",
)
"""Left out of files where they say nothing."""
FOLLOWING = ("part", *following(None))
"""Not in files: `latent` and `levels` say as much."""


@dataclass(frozen=True, kw_only=True)
class StepOptions(FeatureOptions, TrainOptions):
    """How a training step learns, and of which outputs and what part of the network it is.

    classes: of a new classifier; None keeps the model's own. added: names of classes that the
    model's own classifier learns in addition to its own. class_names: of the outputs; none where
    the model knows them, or nobody does. They change nothing that is computed. loss: a name of
    mcutrain.pipeline.losses, or auto. losses: of each of several outputs, a text that
    mcutrain.pipeline.several reads. class_weights: how much each counts, a text that
    mcutrain.pipeline.emphasis reads. label_smoothing: the share of a label that all classes get
    alike, 0 to 1. distill: the share of the loss that is the distance to the answers of the
    classifier in flash, 0 to 1. targets: how real targets become the integers that the outputs are
    compared with; None for classes, and for a network that reproduces its input. part: tail leaves
    out what lies before the latent. latent: which one, see mcutrain.memplan.find_latent. levels: of
    a proxy cascade that is not at hand, for a step that is to read a state, not to run. Features
    add their own, see mcutrain.features.

    Raises ArgumentError for what has no meaning.
    """

    classes: int | None = None
    added: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    loss: str = "cross-entropy"
    losses: str = ""
    class_weights: str = ""
    label_smoothing: float = 0.0
    distill: float = 0.0
    part: Part = "whole"
    latent: str = AUTO
    levels: Levels | None = None
    targets: Targets | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gradient_dtype not in ALIGN_BYTES:
            raise ArgumentError(f"gradient_dtype is {self.gradient_dtype!r}: take int8 or int16")
        Within(1, MOST_ACCUMULATED).check("accumulate", self.accumulate)
        Within(0, 1).check("label_smoothing", self.label_smoothing)
        Within(0, 1).check("distill", self.distill)
        if self.class_weights != BALANCED:
            weights_of(self.class_weights)  # or a sentence
        if self.classes is not None:
            Within(1).check("classes", self.classes)
        if self.levels is not None and not 2 <= self.levels.count <= MOST_LEVELS:
            raise ArgumentError(f"levels are {self.levels.count}: a cascade has 2 to {MOST_LEVELS}")
        rewritings(self)  # or a sentence

    @property
    def align_bytes(self) -> int:
        """Alignment of buffers."""
        return ALIGN_BYTES[self.gradient_dtype]

    @property
    def learning_alone(self) -> StepOptions:
        """How a step learns, without its outputs, its part and its proxy cascade.

        For a graph that has the classifier that is trained.
        """
        return StepOptions(**{name: getattr(self, name) for name in LEARNING})

    def to_dict(self) -> dict[str, Any]:
        """Return it as `of_dict` reads it, ready for JSON."""
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in FOLLOWING}
        facts["latent"] = self.latent if self.part == "tail" else ""
        facts["added"], facts["class_names"] = list(self.added), list(self.class_names)
        facts["levels"] = None if self.levels is None else asdict(self.levels)
        facts["targets"] = None if self.targets is None else self.targets.to_dict()
        return {k: v for k, v in facts.items() if v or k not in OPTIONAL}

    @staticmethod
    def of_dict(values: Mapping[str, Any]) -> StepOptions:
        """What to_dict made; what a file of an earlier version leaves out was not there then.

        Raises ArgumentError for a name that this version does not know, and for values that no step
        is made with.
        """
        unknown = sorted(values.keys() - NAMES)
        if unknown:
            raise ArgumentError(
                f"it says {unknown[0]!r}, which this version of mcutrain does not know"
            )
        try:
            found = from_values(StepOptions, dict(values), "it")
        except ValuesError as error:
            raise ArgumentError(str(error)) from error
        part: Part = "tail" if values.get("latent") else "whole"
        said: dict[str, Any] = following(found.levels)
        return replace(found, part=part, latent=values.get("latent") or AUTO, **said)


LEARNING = tuple(
    f.name for c in (TrainOptions, FeatureOptions) for f in fields(c) if f.name not in FOLLOWING
)
"""Names of the options that say how a step learns."""
NAMES = frozenset(f.name for f in fields(StepOptions)) - set(FOLLOWING)
"""Names of options in files."""
