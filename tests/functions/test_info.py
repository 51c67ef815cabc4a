"""What a model file holds, as a value."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcutrain
from mcutrain.errors import ModelError
from tests.cli.conftest import Run, model, run
from tests.cli.test_info_float import network, obstructed

__all__ = ["model", "run"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_the_value_has_what_the_command_prints(run: Run, model: Path, kind: str) -> None:
    file = model if kind == "int8" else network()
    printed = run("info", file, "--json").json
    found = mcutrain.info(file)
    assert found.is_float == (kind == "float")
    assert printed == {"file": str(file), **plain(found.to_dict())}
    assert [row["name"] for row in found.records()] == [la["name"] for la in printed["layers"]]
    assert f"{found.trainable_layers} layers before the head" in repr(found)


def test_a_graph_is_described_as_its_file_is(model: Path) -> None:
    graph = mcutrain.load(model)
    assert mcutrain.info(graph).to_dict() == mcutrain.info(model).to_dict()


def test_the_text_of_a_graph_and_of_its_training(run: Run, model: Path) -> None:
    found = mcutrain.info(model)
    assert found.text() + "\n" == run("info", model, "--dump").out
    assert found.text("head") + "\n" == run("info", model, "--dump", "--scheme", "head").out
    with pytest.raises(ModelError, match="the model is float"):
        mcutrain.info(network()).text()


def test_obstacles_of_a_float_model_are_a_value_and_no_error() -> None:
    found = mcutrain.info(obstructed())
    assert [text.split()[0] for text in found.obstacles] == ["Sin", "TopK"]
    assert (found.layers, found.records()) == ((), [])
    assert "2 obstacles" in repr(found)
    with pytest.raises(ModelError):
        mcutrain.info("nothing.tflite")


def plain(value: object) -> object:
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
