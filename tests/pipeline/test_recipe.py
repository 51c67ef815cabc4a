"""How a step was made: kept as JSON, read as it was, refused with a sentence if it cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mcutrain.autodiff import Levels
from mcutrain.errors import StateError
from mcutrain.pipeline.recipe import MOST_LEVELS, Recipe, of_dict, of_json
from mcutrain.sparse import UpdateScheme

SCHEME = UpdateScheme(
    "all", 3, {"1": 0.5}, 1, importance={"1": (1.0, 0.5)}, layer_residual_bits={"1": 8}
)
FULL = Recipe(
    SCHEME, 7, "int16", 4, "mse", ("cat", "dog"), "relu3", 0.8, True, "drawn", Levels(3, "a b c")
)


@pytest.mark.parametrize("recipe", [Recipe(UpdateScheme()), FULL], ids=["plain", "full"])
def test_a_recipe_is_read_as_it_was_written(recipe: Recipe) -> None:
    again = of_json(recipe.to_json(), "the state")
    assert again.to_dict() == recipe.to_dict()
    assert (again.levels, again.added, again.swap) == (recipe.levels, recipe.added, recipe.swap)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": 0},
        {"accumulate": 0},
        {"accumulate": -3},
        {"accumulate": 1.5},
        {"gradient_dtype": "int32"},
        {"latent": 3},
        {"elastic": 1},
        {"gate": -0.1},
        {"swap": "sorted"},
        {"scheme": {"name": "x", "residual_bits": 3}},
        {"levels": {"count": 1, "digest": "a"}},
        {"levels": {"count": MOST_LEVELS + 1, "digest": "a"}},
        {"levels": {"count": 2, "digest": 5}},
        {"levels": {"count": 2, "digest": "a", "drifts": 1}},
    ],
    ids=json.dumps,
)
def test_a_recipe_that_no_step_was_made_by_is_refused(change: dict[str, Any]) -> None:
    values = FULL.to_dict() | change
    with pytest.raises(StateError, match=r"the state does not say how it was trained"):
        of_dict(values, "the state")


def test_what_a_later_version_says_besides_is_kept() -> None:
    values = FULL.to_dict() | {"unheard of": [1, {"a": "b"}]}
    assert of_dict(values, "the state").to_dict() == values


def test_modules_of_an_earlier_recipe_learn_at_the_rate_of_all_else() -> None:
    """There was no other when it was written."""
    scheme = UpdateScheme("modules", modules=True)
    values = Recipe(scheme).to_dict()
    assert of_dict(values, "the state").scheme.module_rate is None
    del values["scheme"]["module_rate"]
    assert of_dict(values, "the state").scheme == replace(scheme, module_rate=1.0)
    values["scheme"]["modules"] = False
    assert of_dict(values, "the state").scheme == UpdateScheme("modules")


def test_the_head_of_an_earlier_recipe_learns_at_the_rate_of_all_else() -> None:
    values = Recipe(UpdateScheme("full", head_rate=8.0)).to_dict()
    assert of_dict(values, "the state").scheme.head_rate == 8
    del values["scheme"]["head_rate"]
    assert of_dict(values, "the state").scheme.head_rate == 1


@pytest.mark.parametrize("count", [2, MOST_LEVELS])
def test_a_ladder_has_two_levels_to_sixteen(count: int) -> None:
    values = FULL.to_dict() | {"levels": {"count": count, "digest": "a"}}
    assert of_dict(values, "the state").levels == Levels(count, "a")
