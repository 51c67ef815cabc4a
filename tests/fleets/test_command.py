"""mcutrain average, as a gateway and a server call it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from mcutrain_host.saved import StateFile

import mcutrain
from mcutrain.demo import MODEL
from mcutrain.fleets import averaged
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.fleets.fleet import SAMPLES, fleet
from tests.fleets.test_average import total_of


@pytest.fixture(autouse=True)
def files(run: Run, tmp_path: Path) -> None:
    """The base and the boards' states in an empty folder."""
    ours = fleet()
    for name, state in (("base", ours.base), *((f"b{i}", s) for i, s in enumerate(ours.states))):
        (tmp_path / f"{name}.mcts").write_bytes(ours.file(state))


def states() -> list[str]:
    return [f"b{i}.mcts" for i in range(len(SAMPLES))]


def expected(rounding: str = "nearest", seed: int = 0) -> bytes:
    ours = fleet()
    total = total_of(ours.contributions())
    return averaged(ours.layout, ours.base, total, rounding, seed)  # type: ignore[arg-type]


def test_states_become_the_next_base(run: Run, tmp_path: Path) -> None:
    found = run("average", MODEL, "base.mcts", *states(), "-o", "next.mcts", "--json").json
    made = StateFile.of(tmp_path / "next.mcts")
    assert made.read(made.saved_bytes).raw == expected()
    assert found["sha256"] == sha256(expected()).hexdigest()
    assert [share["weight"] for share in found["shares"]] == list(SAMPLES)
    assert json.loads(made.recipe) == json.loads(fleet().step.recipe.to_json())  # type: ignore[union-attr]
    again = run("average", MODEL, "base.mcts", *states()[::-1], "-o", "again.mcts")
    assert f"SHA-256 {found['sha256']}" in again.out
    assert run("export", MODEL, "--state", "next.mcts", "-o", "trained.tflite").code == 0


def test_gateways_give_the_bytes_of_one_server(run: Run, tmp_path: Path) -> None:
    for name, of in (("g1", states()[:2]), ("g2", states()[2:3]), ("g3", states()[3:])):
        assert run("average", MODEL, "base.mcts", *of, "-o", f"{name}.mctd").code == 0
    sums = ["g3.mctd", "g1.mctd", "g2.mctd"]
    assert run("average", MODEL, "base.mcts", *sums, "-o", "next.mcts").code == 0
    made = StateFile.of(tmp_path / "next.mcts")
    assert made.read(made.saved_bytes).raw == expected()
    mixed = ["g1.mctd", "b2.mcts", "g3.mctd"]
    flags = ["--rounding", "stochastic", "--seed", 4]
    assert run("average", MODEL, "base.mcts", *mixed, "-o", "m.mcts", *flags).code == 0
    made = StateFile.of(tmp_path / "m.mcts")
    assert made.read(made.saved_bytes).raw == expected("stochastic", 4)


def test_names_and_weights_are_taken(run: Run, tmp_path: Path) -> None:
    Path("b=1.mcts").write_bytes(Path("b1.mcts").read_bytes())
    named = ["kitchen=b0.mcts", "b=1.mcts", "--weights", "3,4"]
    found = run("average", MODEL, "base.mcts", *named, "-o", "n.mcts", "--json").json
    assert [(s["name"], s["weight"]) for s in found["shares"]] == [("kitchen", 3), ("b=1", 4)]
    result = mcutrain.average(
        MODEL, "base.mcts", {"a": "b0.mcts", "c": "b1.mcts"}, "p.mcts", weights=[3, 4]
    )
    assert result.sha256 == found["sha256"]
    assert result.records()[0]["name"] == "a"


def test_a_board_that_moved_far_is_named(run: Run) -> None:
    ours = fleet()
    simulator = ours.step.simulator(1)
    simulator.load(ours.base.raw)
    numbers = {n: v + 300 for n, v in ours.layout.read(ours.base).items()}
    wild = ours.layout.with_numbers(ours.base, numbers, 10, 0)
    Path("wild.mcts").write_bytes(ours.file(ours.layout.saved(wild, "wild")))
    done = run("average", MODEL, "base.mcts", *states(), "wild.mcts", "-o", "n.mcts")
    assert done.code == 0
    assert "warning: wild moved by" in done.err
    assert done.err.count("warning") == 1


def test_a_board_that_hardly_moved_is_named(run: Run) -> None:
    ours = fleet()
    numbers = ours.layout.read(ours.base)
    numbers[next(iter(numbers))][0] += 1
    idle = ours.layout.with_numbers(ours.base, numbers, 10, 0)
    Path("idle.mcts").write_bytes(ours.file(ours.layout.saved(idle, "idle")))
    done = run("average", MODEL, "base.mcts", *states(), "idle.mcts", "-o", "n.mcts")
    assert "warning: idle moved by" in done.err
    assert done.err.count("warning") == 1


WRONG = [
    (["b0.mcts", "b0.mcts", "-o", "n.mcts"], "would both be called 'b0'"),
    (["a=b0.mcts", "a=b1.mcts", "-o", "n.mcts"], "own name"),
    (["b0.mcts", "x.mcts", "-o", "n.mcts"], "x.mcts"),
    (["a=none.mcts", "-o", "n.mcts"], "none.mcts"),
    (["b0.mcts", "-o", "n.bin"], "must end with .mcts"),
    (["b0.mcts", "-o", "n.mctd", "--trim", "1"], "trim where"),
    (["b0.mcts", "-o", "n.mcts", "--trim", "1"], "at most 0"),
    (["b0.mcts", "-o", "n.mcts", "--trim", "0", "--weights", "-1"], "weight of 'b0' is -1"),
    (["b0.mcts", "b1.mcts", "-o", "n.mcts", "--trim", "1", "--weights", "1,2"], "every board"),
    (["b0.mcts", "-o", "n.mcts", "--weights", "1,2"], "2 weights for 1 files"),
    (["b0.mcts", "-o", "n.mcts", "--weights", "x"], "whole numbers"),
    (["b0.mcts", "-o", "n.mcts", "--weights", "0"], "weight of 'b0' is 0"),
    (["b0.mcts", "-o", "n.mcts", "--rounding", "up"], "rounding"),
    (["base.mcts", "-o", "n.mcts"], "leave it out"),
]


@pytest.mark.parametrize(("flags", "sentence"), WRONG)
def test_wrong_files_get_a_sentence_and_write_nothing(
    run: Run, tmp_path: Path, flags: list[str], sentence: str
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    assert sentence in run("average", MODEL, "base.mcts", *flags).sentence
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_damaged_sum_gets_a_sentence(run: Run) -> None:
    assert run("average", MODEL, "base.mcts", "b0.mcts", "-o", "g.mctd").code == 0
    raw = bytearray(Path("g.mctd").read_bytes())
    raw[40] ^= 1
    Path("g.mctd").write_bytes(raw)
    found = run("average", MODEL, "base.mcts", "g.mctd", "-o", "n.mcts").sentence
    assert "g.mctd is no contribution to a fleet, or is damaged" in found
