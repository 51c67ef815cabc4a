"""How a training step was made from a model: kept with what it trained, to find the way back.

It rides as JSON in projects, checkpoints and saved states, and is read and written here alone.
Fields that a later version added are kept as they are: a state's own hash says whether it fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from mcutrain_host.saved import recipe_text
from mcutrain_host.text import reason

from mcutrain.autodiff import Gate, Levels
from mcutrain.errors import ArgumentError, SchemeError, StateError
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.modules import numbers_of
from mcutrain.sparse.columns import RULES
from mcutrain.sparse.scheme import UpdateScheme, usual_head_rate

MOST_LEVELS = 16
GRADIENT_DTYPES = ("int8", "int16")
OPTIONAL = ("levels", "class_names", "model", "name", "pet", "numbers", "others")
"""Fields that are left out where they say nothing."""


@dataclass(frozen=True)
class Recipe:
    """The arguments of mcutrain.prepare that fix what a saved state means.

    classes: of a new head, None for the model's own. added: names of classes that the model's own
    head got in addition. latent: what a tail begins with; empty for a step of the whole network.
    gate: alpha of mcutrain.autodiff.Gate. elastic: tensors could be left out.
    swap: by which rule other columns could be trained, or none. levels: of its ladder; None
    without one. class_names: of the outputs, if they are known, for the trained model. model: the
    hash of the graph that the model's file holds (see mcutrain.ir.digest), and name: how it was
    called; empty where they are not known. pet: modules that were put into it, as --pet has them,
    and numbers: what they are made of (see mcutrain.modules.numbers); empty where there are none.
    others: what a later version says more.
    """

    scheme: UpdateScheme
    classes: int | None = None
    gradient_dtype: str = "int8"
    accumulate: int = 1
    loss: str = "cross-entropy"
    added: tuple[str, ...] = ()
    latent: str = ""
    gate: float | None = None
    elastic: bool = False
    swap: str = ""
    levels: Levels | None = None
    class_names: tuple[str, ...] = ()
    model: str = ""
    name: str = ""
    pet: str = ""
    numbers: str = ""
    others: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As `of_dict` reads it, ready for JSON; layers are in one order, whatever the scheme's."""
        scheme = {f.name: getattr(self.scheme, f.name) for f in fields(self.scheme)}
        for name in ("weights", "layer_residual_bits", "module_channels"):
            scheme[name] = dict(sorted(scheme[name].items()))
        scheme["importance"] = {k: list(v) for k, v in sorted(self.scheme.importance.items())}
        found = {f.name: getattr(self, f.name) for f in fields(self)} | {"scheme": scheme}
        found["added"], found["class_names"] = list(self.added), list(self.class_names)
        found["levels"] = None if self.levels is None else asdict(self.levels)
        for name in OPTIONAL:
            if not found[name]:
                del found[name]
        return {**found.pop("others", {}), **found}

    def to_json(self) -> str:
        """As `of_json` reads it."""
        return recipe_text(self.to_dict())


@dataclass(frozen=True)
class PutModules:
    """Modules that were put into a model's graph before the step was made. Fields as of Recipe."""

    model: str
    pet: str
    numbers: str

    @staticmethod
    def into(before: Graph, pet: str, after: Graph) -> PutModules:
        """Of the model's own graph, and the one with modules."""
        return PutModules(graph_digest(before), pet, numbers_of(after))


def of_dict(values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from what to_dict made. Raises StateError if it is none."""
    try:
        names = {f.name for f in fields(Recipe)} - {"others"}
        given = {name: value for name, value in values.items() if name in names}
        given["others"] = {name: value for name, value in values.items() if name not in names}
        given["scheme"] = _scheme(given["scheme"])
        given["added"] = tuple(map(str, given.get("added", ())))
        given["class_names"] = tuple(map(str, given.get("class_names", ())))
        if "levels" in given:
            given["levels"] = Levels(**given["levels"])
        recipe = Recipe(**given)
        numbers = [n for n in (recipe.classes, recipe.accumulate) if n is not None]
        is_sound = all(isinstance(n, int) and n > 0 for n in numbers)
        texts = (recipe.latent, recipe.model, recipe.name, recipe.pet, recipe.numbers, recipe.loss)
        is_sound = is_sound and all(isinstance(text, str) for text in texts)
        is_sound = is_sound and isinstance(recipe.elastic, bool)
        is_sound = is_sound and recipe.swap in ("", *RULES)
        is_sound = is_sound and _is_sound(recipe.levels)
        if recipe.gate is not None:
            Gate.of(recipe.gate)
        if not is_sound or recipe.gradient_dtype not in GRADIENT_DTYPES:
            raise ValueError("it holds impossible values")
    except (ArgumentError, AttributeError, KeyError, TypeError, ValueError, SchemeError) as error:
        raise StateError(
            f"{where} does not say how it was trained in a way that this version of mcutrain "
            f"understands ({error}); give --scheme and the other flags of the training"
        ) from error
    return recipe


def _scheme(values: Mapping[str, Any]) -> UpdateScheme:
    """Where a file does not say at which rate the head or modules learn, there was none but 1."""
    earlier = {"head_rate": 1.0} | ({"module_rate": 1.0} if values.get("modules") else {})
    return UpdateScheme(**{**earlier, **values})


def _is_sound(levels: Levels | None) -> bool:
    if levels is None:
        return True
    kinds = (levels.count, int), (levels.digest, str), (levels.drifts, bool)
    return all(isinstance(*kind) for kind in kinds) and 2 <= levels.count <= MOST_LEVELS


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
    )


def _is_on(flag: str, value: bool) -> str:
    return flag if value else f"no {flag}"


UNDECIDED = ("--loss auto", "--latent auto")
READ_AS: Mapping[str, Callable[[Recipe], str]] = {
    "--classes": lambda r: f"--classes {r.classes or 'keep'}",
    "--gradient-bits": lambda r: f"--gradient-bits {r.gradient_dtype.removeprefix('int')}",
    "--accumulate": lambda r: f"--accumulate {r.accumulate}",
    "--loss": lambda r: f"--loss {r.loss}",
    "--add-class": lambda r: " ".join(f"--add-class {n}" for n in r.added) or "no --add-class",
    "--gate": lambda r: "no --gate" if r.gate is None else f"--gate {r.gate:g}",
    "--elastic": lambda r: _is_on("--elastic", r.elastic),
    "--swap": lambda r: f"--swap {r.swap}" if r.swap else "no --swap",
    "--part": lambda r: f"--part {'tail' if r.latent else 'whole'}",
    "--latent": lambda r: f"--latent {r.latent}" if r.latent else "no --latent",
    "--proxies": lambda r: f"--proxies of {r.levels.count} levels" if r.levels else "no --proxies",
    "--drift": lambda r: _is_on("--drift", r.levels is not None and r.levels.drifts),
    "--pet": lambda r: f"--pet {r.pet}" if r.pet else "no --pet",
    "--residual-bits": lambda r: f"--residual-bits {_residual_bits(r.scheme)}",
    "--head-residual-bits": lambda r: f"--head-residual-bits {r.scheme.head_residual_bits}",
    "--head-rate": lambda r: f"--head-rate {_head_rate(r):g}",
    "--bias-bits": lambda r: f"--bias-bits {r.scheme.bias_bits}",
    "--no-qas": lambda r: _is_on("--no-qas", not r.scheme.qas),
}
"""How a flag of a training reads, by its name."""


def _residual_bits(scheme: UpdateScheme) -> str:
    own = sorted(set(scheme.layer_residual_bits.values()) - {scheme.residual_bits})
    return " and ".join(map(str, (scheme.residual_bits, *own)))


def _head_rate(recipe: Recipe) -> float:
    """The scheme's factor, or the usual one."""
    given = recipe.scheme.head_rate
    return usual_head_rate(is_new=recipe.classes is not None) if given is None else given
