"""mcutrain profile of what a clock says: of a board over its line, and of this computer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcutrain import prepare
from mcutrain.demo import MODEL
from mcutrain.pipeline import load
from tests.cli.conftest import Board, Run, done

SCHEME = ("--scheme", "last:3")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timed") / "project"
    done("generate", MODEL, *SCHEME, "--board", "native", "--timed", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


def check(facts: Any) -> None:
    """Every node took its time, and the tensors theirs."""
    step = prepare(load(MODEL), "last:3", elastic=True)
    assert [t["name"] for t in facts["tensors"]] == [t.name for t in step.plan.training.elastic]
    assert facts["unit"] == "ns"
    assert all(0 < node["counted"] < 10**9 for node in facts["nodes"])
    total = sum(node["counted"] for node in facts["nodes"])
    assert total == facts["forward"] + facts["backward"] + facts["update"]
    for tensor in facts["tensors"]:
        own = [n["counted"] for n in facts["nodes"] if n["tensor"] == tensor["name"]]
        assert tensor["update"] == sum(own)
    assert facts["model_error"] is None
    estimated = sum(node["estimated"] for node in facts["nodes"])
    assert facts["per_instruction"] == pytest.approx(total / estimated)
    assert 0 < facts["misplaced"] < 1


@pytest.mark.slow
def test_a_boards_times_take_the_models_place(
    run: Run, board: Board, folder: Path, images: Path
) -> None:
    facts = run("profile", folder, "--port", board.url, "-o", "p.json", "--json").json
    assert facts == json.loads(Path("p.json").read_text())
    assert facts["board"] == "native"
    check(facts)
    generated = ("generate", MODEL, *SCHEME, "--elastic", "--profile", "p.json", "-o", "elastic")
    assert run(*generated).code == 0
    header = Path("elastic/src/mct_model.h").read_text()
    assert "in ns. */" in header
    assert f"MCT_FORWARD_TIME {facts['forward']}u" in header
    few = ("--samples", 60, "--test-samples", 4, "--epochs", 2, "--lr", "0.03", "--every", 40)
    elastic = ("--data", images, *SCHEME, *few, "--elastic", "0.9", "--profile", "p.json")
    assert run("simulate", MODEL, *elastic, "--json").json["selections"]
    said = run("profile", folder, "--port", board.url).out
    assert "ns of a step on native" in said
    assert "ns for each instruction that the model estimates. " in said


@pytest.mark.slow
def test_this_computer_times_the_c_of_simulations(run: Run) -> None:
    check(run("profile", MODEL, *SCHEME, "--here", "-o", "p.json", "--json").json)
    said = run("profile", MODEL, *SCHEME, "--here").out
    assert "ns of a step on this computer" in said


def test_what_cannot_be_timed_is_a_sentence(run: Run, folder: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    assert run("generate", MODEL, *SCHEME, "--board", "native", "-o", plain).code == 0
    port = ("--port", "socket://127.0.0.1:9")
    assert "generate it with --timed" in run("profile", plain, *port).sentence
    for flags, said in (
        ((folder, "--count"), "is of a model"),
        ((folder, "--here"), "is of a model"),
        ((MODEL, *port), "is of a project: give its DIR for MODEL"),
        ((MODEL, "--here", "--board", "nucleo-f446re"), "leave out --board"),
    ):
        found = run("profile", *flags)
        assert found.code == 2
        assert said in " ".join(found.err.replace("│", " ").split())
    library = run("generate", MODEL, "--timed", "-o", tmp_path / "library")
    assert library.code == 2
    assert "needs a board's clock" in library.err
    assert not (tmp_path / "library").exists()
    assert run("profile", tmp_path / "nothing").code == 2
