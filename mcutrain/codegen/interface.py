"""What whoever puts a model into a program of his own chooses: names, and how samples come in."""

from __future__ import annotations

import re

from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import FrontCost, Timing

from mcutrain import data
from mcutrain.codegen.estimates import Estimates
from mcutrain.codegen.isa import ALL, check_isa
from mcutrain.errors import McutrainError
from mcutrain.features import ProgramChoices
from mcutrain.memplan.latent import DEEPEST
from mcutrain.sparse.elastic import ElasticTimes

DEFAULT_PREFIX = "mct"
MOST_CHARACTERS = 24


@dataclass(frozen=True)
class Interface(ProgramChoices):
    """What a generated project offers, besides its step.

    prefix: of the model's own functions, macros and files; what models share begins with mct_.
    class_names: in the order of the outputs, or empty.
    normalization: of pixels, where the input's parameters do not tell.
    latent: the tensor that steps may begin with, too, or auto (see mcutrain.memplan.find_latent);
        None for the input alone.
    remember: latents in the ring of a library, or of a board's firmware, which trains on them
        again. With some, latent is auto by default.
    elastic: how the program selects the tensors of an elastic step; None: its caller does.
    timing: of a program that times its nodes.
    fronts: of a proxy cascade, what the policy and each level take, for the manifest.
    centre: of the classifier's features, one int8 code for each, for a program that gives a class
        its weights from a few samples (see mcutrain.quant.imprint); empty for others.
    isa: the instruction set that a library has bodies for; all: every one that its compiler can
        choose from.
    package: the build system that a library is a package for; empty: files that several take.
    estimates: of what calls take, for comments and features.

    The fields of ProgramChoices say which features the program has. Raises McutrainError for a
    prefix that is no name, or that mct_ owns, and for an unknown instruction set.
    """

    prefix: str = DEFAULT_PREFIX
    class_names: tuple[str, ...] = ()
    normalization: data.Normalization | None = None
    latent: str | None = None
    remember: int = 0
    elastic: ElasticTimes | None = None
    timing: Timing | None = None
    fronts: tuple[FrontCost, ...] = ()
    centre: tuple[int, ...] = ()
    isa: str = ALL
    package: str = ""
    estimates: tuple[Estimates, ...] = ()

    def __post_init__(self) -> None:
        check_isa(self.isa)
        if self.remember < 0:
            raise McutrainError(f"remember = {self.remember}: give 0 or more latents")
        if not re.fullmatch(rf"[a-z][a-z0-9_]{{0,{MOST_CHARACTERS - 1}}}", self.prefix):
            raise McutrainError(
                f"the prefix {self.prefix!r} cannot begin C names: use lower-case letters, digits "
                f"and _, a letter first, {MOST_CHARACTERS} characters at most"
            )
        if self.prefix.startswith("mct_"):
            raise McutrainError(
                f"the prefix {self.prefix!r} begins as the names that all models share: use one "
                "without mct_"
            )

    @property
    def wanted_latent(self) -> str | None:
        """The latent's name, or auto; None for the input alone."""
        return DEEPEST if self.remember and self.latent is None else self.latent

    def check_classes(self, classes: int, has_labels: bool) -> None:
        """Raises McutrainError unless there is a name for each of the model's classes."""
        if not self.class_names:
            return
        if not has_labels:
            raise McutrainError(
                "there are class names, but a network that reproduces its input has no classes: "
                "leave them out"
            )
        if len(self.class_names) != classes:
            raise McutrainError(
                f"there are {len(self.class_names)} class names but the model has {classes} "
                "classes: give one name for each, in the order of its outputs"
            )


DEFAULT = Interface()
