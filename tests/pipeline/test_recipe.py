"""How a step was made: kept as JSON, read as it was, refused with a sentence if it cannot be."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from mcutrain.autodiff import Levels
from mcutrain.errors import ArgumentError, StateError
from mcutrain.pipeline.recipe import Recipe, of_dict, of_json
from mcutrain.pipeline.step_options import MOST_LEVELS, StepOptions
from mcutrain.sparse import UpdateScheme

SCHEME = UpdateScheme(
    "all", 3, {"1": 0.5}, 1, importance={"1": (1.0, 0.5)}, layer_residual_bits={"1": 8}
)
FULL = Recipe(
    SCHEME,
    StepOptions(
        "int16",
        4,
        gate=0.8,
        elastic=True,
        swap="drawn",
        classes=7,
        added=("cat", "dog"),
        class_names=("ant", "cat", "dog"),
        loss="mse",
        part="tail",
        latent="relu3",
        drift=True,
        levels=Levels(3, "a b c", drifts=True),
    ),
    "0123",
    "net",
    "gain",
    "gain:2",
)


@pytest.mark.parametrize("recipe", [Recipe(UpdateScheme()), FULL], ids=["plain", "full"])
def test_a_recipe_is_read_as_it_was_written(recipe: Recipe) -> None:
    again = of_json(recipe.to_json(), "the state")
    assert again.to_dict() == recipe.to_dict()
    assert replace(again, scheme=recipe.scheme) == recipe


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


def test_what_a_later_version_says_besides_is_named() -> None:
    """It may change what the state means."""
    values = FULL.to_dict() | {"momentum": 0.9}
    with pytest.raises(StateError, match="'momentum'"):
        of_dict(values, "the state")


def test_an_option_of_a_recipe_of_any_age_is_read() -> None:
    """What a file leaves out was not there then; what says nothing is left out."""
    values = FULL.to_dict()
    for name in (field.name for field in fields(StepOptions) if field.name in values):
        less = of_dict({k: v for k, v in values.items() if k != name}, "the state")
        assert less != FULL
    assert of_dict({"scheme": values["scheme"]}, "the state").options == StepOptions()
    assert Recipe(SCHEME).to_dict().keys() == {
        *("scheme", "classes", "gradient_dtype", "accumulate", "loss", "added", "latent"),
        *("gate", "elastic", "swap"),
    }


@pytest.mark.parametrize(
    "wrong",
    [{"accumulate": 1.5}, {"part": "half"}, {"elastic": 1}, {"classes": 0}, {"gate": -1.0}],
    ids=str,
)
def test_an_option_without_a_meaning_is_a_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        StepOptions(**wrong)


def test_linear_biases_are_kept_and_other_recipes_are_what_they_were() -> None:
    linear = replace(FULL, scheme=replace(SCHEME, linear_biases=True))
    assert of_json(linear.to_json(), "the state").scheme == linear.scheme
    assert "linear_biases" not in FULL.to_dict()["scheme"]


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
    assert of_dict(values, "the state").options.levels == Levels(count, "a")
