"""How a training step was made from a model: kept with what it trained, to find the way back.

It rides as JSON in projects, checkpoints and saved states, and is read and written here alone.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import recipe_text
from mcutrain_host.text import reason

from mcutrain.errors import ArgumentError, SchemeError, StateError
from mcutrain.features import FEATURES
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.modules import numbers_of
from mcutrain.pipeline.step_options import AUTO, StepOptions
from mcutrain.sparse.scheme import UpdateScheme, usual_head_rate
from mcutrain.update_rules import SGD

TEXTS = ("model", "name", "pet", "numbers", "frontend")
"""Texts of a recipe; files leave out empty ones."""


@dataclass(frozen=True)
class Recipe:
    """What fixes the meaning of a saved state.

    options: the step's, of which latent is the tensor's name, and levels says which proxy cascade
    it has. model: the hash of the graph that the model's file holds (see mcutrain.ir.digest), and
    name: how it was called; empty where they are not known. pet: modules that were put into it, as
    --pet has them, and numbers: what they are made of (see mcutrain.modules.numbers); empty where
    there are none. frontend: what made its samples of raw ones, as mcutrain.frontends.parse reads
    it; empty for none.
    """

    scheme: UpdateScheme
    options: StepOptions = StepOptions()
    model: str = ""
    name: str = ""
    pet: str = ""
    numbers: str = ""
    frontend: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As `of_dict` reads it, ready for JSON; layers are in one order, whatever the scheme's."""
        scheme = {f.name: getattr(self.scheme, f.name) for f in fields(self.scheme)}
        if not self.scheme.linear_biases:
            del scheme["linear_biases"]  # so that a recipe is what it was before there were any
        if self.scheme.update_rule == SGD:
            del scheme["update_rule"]
        if self.scheme.norm_depth is None:
            del scheme["norm_depth"]
        for name in ("weights", "layer_residual_bits", "module_channels"):
            scheme[name] = dict(sorted(scheme[name].items()))
        scheme["importance"] = {k: list(v) for k, v in sorted(self.scheme.importance.items())}
        texts = {name: getattr(self, name) for name in TEXTS if getattr(self, name)}
        return {"scheme": scheme, **self.options.to_dict(), **texts}

    def to_json(self) -> str:
        """Return it as `of_json` reads it."""
        return recipe_text(self.to_dict())


@dataclass(frozen=True)
class PutModules:
    """Modules that were put into a model's graph before the step was made. Fields as of Recipe."""

    model: str
    pet: str
    numbers: str

    @staticmethod
    def into(before: Graph, pet: str, after: Graph) -> PutModules:
        """Describe modules by the model's own graph, and the one with modules."""
        return PutModules(graph_digest(before), pet, numbers_of(after))


def of_dict(values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from what to_dict made.

    Raises StateError if it is none, and for one with names that this version does not know: what
    they say may change the meaning of a state.
    """
    try:
        texts = {name: values[name] for name in TEXTS if name in values}
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("it holds impossible values")
        scheme = _scheme(values["scheme"])
        own = {k: v for k, v in values.items() if k not in ("scheme", *TEXTS)}
        return Recipe(scheme, StepOptions.of_dict(own), **texts)
    except (ArgumentError, AttributeError, KeyError, TypeError, ValueError, SchemeError) as error:
        raise StateError(
            f"{where} does not say how it was trained in a way that this version of mcutrain "
            f"understands ({error}); give --scheme and the other flags of the training"
        ) from error


def _scheme(values: Mapping[str, Any]) -> UpdateScheme:
    """Where a file does not say at which rate the head or modules learn, there was none but 1."""
    earlier = {"head_rate": 1.0} | ({"module_rate": 1.0} if values.get("modules") else {})
    return UpdateScheme(**{**earlier, **values})


def of_json(text: str, where: str) -> Recipe:
    """A recipe from what to_json made. Raises StateError if it is none."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"{where} is damaged: its recipe is no JSON: {reason(error)}") from error
    return of_dict(values, where)


def contradiction(kept: Recipe, given: Recipe, flags: Iterable[str]) -> str:
    """In what a training and flags that are given by hand differ, both named; empty if in nothing.

    flags: that are given, such as --gate; others of `given` say nothing.
    """
    for flag in flags:
        if flag in READ_AS:
            was, said = READ_AS[flag](kept), READ_AS[flag](given)
            if was != said and said not in UNDECIDED:
                return f"{was}, and {said} is given"
    if "--scheme" in flags and _what_is_trained(kept) != _what_is_trained(given):
        names = kept.scheme.name, given.scheme.name
        which = "" if names[0] != names[1] else ", which trains something else"
        return f"--scheme {names[0]}, and --scheme {names[1]}{which} is given"
    return ""


def _what_is_trained(recipe: Recipe) -> UpdateScheme:
    """The scheme without its name, and what other flags say."""
    return replace(
        recipe.scheme,
        name="",
        residual_bits=4,
        layer_residual_bits={},
        head_residual_bits=8,
        bias_bits=32,
        qas=True,
        head_rate=None,
        update_rule=SGD,
    )


def _is_on(flag: str, value: bool) -> str:
    return flag if value else f"no {flag}"


def _of(read: Callable[[StepOptions], str], recipe: Recipe) -> str:
    return read(recipe.options)


UNDECIDED = ("--loss auto", "--latent auto", "--class-weights balanced")
READ_AS: Mapping[str, Callable[[Recipe], str]] = {
    "--classes": lambda r: f"--classes {r.options.classes or 'keep'}",
    "--gradient-bits": lambda r: f"--gradient-bits {r.options.gradient_dtype.removeprefix('int')}",
    "--accumulate": lambda r: f"--accumulate {r.options.accumulate}",
    "--loss": lambda r: f"--loss {r.options.loss}",
    "--class-weights": lambda r: (
        f"--class-weights {r.options.class_weights}"
        if r.options.class_weights
        else "no --class-weights"
    ),
    "--label-smoothing": lambda r: f"--label-smoothing {r.options.label_smoothing:g}",
    "--distill": lambda r: f"--distill {r.options.distill:g}",
    "--add-class": lambda r: (
        " ".join(f"--add-class {shlex.quote(n)}" for n in r.options.added) or "no --add-class"
    ),
    "--part": lambda r: f"--part {r.options.part}",
    "--latent": lambda r: _latent(r.options),
    "--pet": lambda r: f"--pet {r.pet}" if r.pet else "no --pet",
    "--residual-bits": lambda r: f"--residual-bits {_residual_bits(r.scheme)}",
    "--head-residual-bits": lambda r: f"--head-residual-bits {r.scheme.head_residual_bits}",
    "--head-rate": lambda r: f"--head-rate {_head_rate(r):g}",
    "--bias-bits": lambda r: f"--bias-bits {r.scheme.bias_bits}",
    "--update-rule": lambda r: f"--update-rule {r.scheme.update_rule}",
    "--no-qas": lambda r: _is_on("--no-qas", not r.scheme.qas),
    **{flag: partial(_of, read) for f in FEATURES for flag, read in f.flags.items()},
}
"""How a flag of a training reads, by its name."""


def _latent(options: StepOptions) -> str:
    """Say which --latent; for a whole network, also one that was given by hand."""
    is_none = options.part == "whole" and options.latent == AUTO
    return "no --latent" if is_none else f"--latent {options.latent}"


def _residual_bits(scheme: UpdateScheme) -> str:
    own = sorted(set(scheme.layer_residual_bits.values()) - {scheme.residual_bits})
    return " and ".join(map(str, (scheme.residual_bits, *own)))


def _head_rate(recipe: Recipe) -> float:
    """The scheme's factor, or the usual one."""
    given = recipe.scheme.head_rate
    return usual_head_rate(is_new=recipe.options.classes is not None) if given is None else given
