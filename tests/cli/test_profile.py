"""mcutrain profile: every instruction is somebody's, and what is counted is what the board runs."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mcutrain
from mcutrain import prepare
from mcutrain.cost.instructions import estimate
from mcutrain.pipeline import load
from tests.cli.conftest import Run

SCHEME = "last:3"
BOARD = ("--board", "nucleo-f446re")
STEP_ERROR = 0.1
"""Of the model on a whole step: what benchmarks/instruction_model.py promises of most."""

needs_board = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or importlib.util.find_spec("unicorn") is None,
    reason="counting needs a virtual board: apt install gcc-arm-none-eabi, and mcutrain[virtual]",
)


def profiled(run: Run, *arguments: object) -> Any:
    return run("profile", *arguments, "--scheme", SCHEME, "--json").json


def total(facts: Any) -> int:
    return sum(facts[part] for part in ("forward", "backward", "update"))


def test_all_that_the_model_estimates_is_of_one_pass(run: Run, model: Path) -> None:
    facts = profiled(run, model)
    step = prepare(load(model), SCHEME, elastic=True)
    estimated = estimate(step.plan.training, "dsp", step.plan.segments)
    assert total(facts) == sum(estimated.values())
    assert {n["name"]: n["estimated"] for n in facts["nodes"]} == {
        name: count for name, count in estimated.items() if count
    }
    loss = next(i for i, node in enumerate(facts["nodes"]) if node["name"] == "loss")
    passes = [node["of"] for node in facts["nodes"]]
    assert set(passes[: loss + 1]) == {"forward"}
    assert set(passes[loss + 1 :]) == {"backward", "update"}
    assert facts["model_error"] is None


def test_tensors_take_what_their_nodes_take(run: Run, model: Path) -> None:
    facts = profiled(run, model)
    tensors = facts["tensors"]
    assert [t["name"] for t in tensors if t["is_always_trained"]] == ["head/weight", "head/bias"]
    for tensor in tensors:
        own = [n["estimated"] for n in facts["nodes"] if n["tensor"] == tensor["name"]]
        assert tensor["update"] == sum(own) > 0
    assert [t["backward"] for t in tensors] == sorted(t["backward"] for t in tensors)
    assert tensors[0]["backward"] == 0
    assert tensors[-1]["backward"] == facts["backward"] > 0
    assert sum(t["update"] for t in tensors) == facts["update"]


@pytest.mark.slow
@needs_board
def test_counted_instructions_stand_beside_the_model_s(run: Run, model: Path) -> None:
    facts = profiled(run, model, *BOARD, "--count")
    counted = sum(node["counted"] for node in facts["nodes"])
    estimated = sum(node["estimated"] for node in facts["nodes"])
    assert total(facts) == counted
    assert facts["model_error"] == estimated / counted - 1
    assert 0 < abs(facts["model_error"]) < STEP_ERROR
    own = {n["name"]: n["counted"] for n in facts["nodes"] if n["tensor"] == "head/weight"}
    assert facts["tensors"][0]["update"] == sum(own.values())


def test_a_profile_is_a_table_of_nodes_and_one_of_tensors(run: Run, model: Path) -> None:
    facts = profiled(run, model, "--board", "rpi-pico")
    said = run("profile", model, "--scheme", SCHEME, "--board", "rpi-pico").out
    assert facts["isa"] == "armv6m"
    assert "instructions of a step on rpi-pico" in said
    for row in (*facts["nodes"], *facts["tensors"]):
        assert row["name"] in said
    assert f"In all {total(facts):,}: forward and loss {facts['forward']:,}" in said
    assert "was counted" not in said


def test_a_profile_without_a_chip_is_a_sentence(run: Run, model: Path) -> None:
    host = run("profile", model, "--board", "raspberry-pi").sentence
    assert host.startswith("raspberry-pi has no instruction model; name a microcontroller")
    alone = run("profile", model, "--count")
    assert alone.code == 2
    assert "runs on a board: give --board, too" in alone.err


@pytest.mark.slow
def test_a_profile_takes_the_models_place(run: Run, model: Path, images: Path) -> None:
    """Of the instruction model itself: the same choices; of doubled updates: others."""
    assert run("profile", model, "--scheme", SCHEME, "-o", "profile.json").code == 0
    flags = ("--data", images, "--samples", 60, "--test-samples", 4, "--epochs", 2, "--lr", "0.03")
    chosen = ("--scheme", SCHEME, "--elastic", "0.9", "--every", 60)

    def selections(*more: object) -> Any:
        return run("simulate", model, *flags, *chosen, *more, "--json").json["selections"]

    expected = selections()
    assert selections("--profile", "profile.json") == expected
    facts = json.loads(Path("profile.json").read_text())
    for node in facts["nodes"]:
        node["counted"] = 0 if node["of"] != "forward" else node["estimated"]
    Path("free.json").write_text(json.dumps(facts))
    free = selections("--profile", "free.json")
    assert len(free[0]["tensors"]) == 8 > len(expected[0]["tensors"])
    generated = ("generate", model, "--scheme", SCHEME, "--elastic", "-o")
    for name, more in (("a", ()), ("b", ("--profile", "profile.json"))):
        assert run(*generated, name, *more).code == 0
    sources = [Path(name, "src", "mct_model.c").read_text() for name in "ab"]
    assert sources[0] == sources[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the profile"),
        ("{", "is no profile: write one with"),
        ("[]", "is no profile"),
        ('{"nodes": [{"name": "a", "kernel": "b", "estimated": -1}]}', "is no profile"),
        ('{"nodes": [{"name": "a", "kernel": "b", "estimated": true}]}', "is no profile"),
        ('{"nodes": []}', "is a profile of another step, which has no node "),
    ],
)
def test_what_is_no_profile_is_a_sentence(
    run: Run, model: Path, content: str | None, said: str
) -> None:
    if content is not None:
        Path("p.json").write_text(content)
    flags = ("generate", model, "--elastic", "-o", "project", "--profile", "p.json")
    assert said in run(*flags).sentence
    assert not Path("project").exists()
    without = run(*(flag for flag in flags if flag != "--elastic"))
    assert without.code == 2
    assert "--elastic" in without.err


def test_a_step_whose_columns_can_be_exchanged_takes_another_time(run: Run, model: Path) -> None:
    flags = ("profile", model, "--scheme", "16:0.5", "--json")
    plain, swapped = run(*flags).json, run(*flags, "--resample", "drawn").json
    assert [n["name"] for n in plain["nodes"]] == [n["name"] for n in swapped["nodes"]]
    assert total(plain) != total(swapped)
    found = mcutrain.profile(model, "16:0.5", swap="drawn")
    assert {"file": str(model), **found.to_dict()} == swapped
