"""How a training step was made from a model: kept with what it trained, to find the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mcutrain_host.text import reason

from mcutrain.autodiff import Gate, Levels
from mcutrain.errors import ArgumentError, SchemeError, StateError
from mcutrain.sparse.columns import RULES
from mcutrain.sparse.scheme import UpdateScheme

MOST_LEVELS = 16
GRADIENT_DTYPES = ("int8", "int16")


@dataclass(frozen=True)
class Recipe:
    """The arguments of mcutrain.prepare that fix what a saved state means.

    classes: of a new head, None for the model's own. added: names of classes that the model's own
    head got in addition. latent: what a tail begins with; empty for a step of the whole network.
    gate: alpha of mcutrain.autodiff.Gate. elastic: tensors could be left out.
    swap: by which rule other columns could be trained, or none. levels: of its ladder; None
    without one. class_names: of the outputs, if they are known, for the trained model.
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

    def to_dict(self) -> dict[str, Any]:
        """As `of_dict` reads it, ready for JSON."""
        scheme = {f.name: getattr(self.scheme, f.name) for f in fields(self.scheme)}
        scheme["weights"] = dict(self.scheme.weights)
        scheme["layer_residual_bits"] = dict(self.scheme.layer_residual_bits)
        scheme["module_channels"] = dict(self.scheme.module_channels)
        scheme["importance"] = {k: list(v) for k, v in self.scheme.importance.items()}
        found = {f.name: getattr(self, f.name) for f in fields(self)} | {"scheme": scheme}
        if self.levels is None:
            del found["levels"]
        else:
            found["levels"] = asdict(self.levels)
        if not self.class_names:
            del found["class_names"]
        return found

    def to_json(self) -> str:
        """As `of_json` reads it."""
        return json.dumps(self.to_dict())


def of_dict(values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from what to_dict made. Raises StateError if it is none."""
    try:
        given = dict(values)
        given["scheme"] = _scheme(given["scheme"])
        given["added"] = tuple(map(str, given.get("added", ())))
        given["class_names"] = tuple(map(str, given.get("class_names", ())))
        if "levels" in given:
            given["levels"] = Levels(**given["levels"])
        recipe = Recipe(**given)
        numbers = [n for n in (recipe.classes, recipe.accumulate) if n is not None]
        is_sound = all(isinstance(n, int) and n > 0 for n in numbers)
        is_sound = is_sound and isinstance(recipe.latent, str)
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
    """Where a file does not say at which rate modules learn, there was no other than 1."""
    earlier = {"module_rate": 1.0} if values.get("modules") else {}
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
