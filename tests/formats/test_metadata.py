"""What files say besides their networks comes back, from both formats, also from damaged files."""

from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import ModelError
from mcutrain.formats import load, write
from mcutrain.formats.metadata import MOST_BYTES, MOST_ENTRIES, read_metadata
from mcutrain.formats.onnx.read import ROUNDING
from mcutrain.ir.difference import difference
from tests.trained.networks import classifier

SAID = {"mcutrain.test": b'{"shape": [1, 28, 28]}', "names": "Größe, 大".encode()}
FORMATS = ("tflite", "onnx")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.tflite"
    path.write_bytes(classifier())
    return load(path)


def said(path):
    """The entries but the writer's own, of how the graph rounds."""
    return {name: text for name, text in read_metadata(path).items() if name != ROUNDING}


@pytest.mark.parametrize("suffix", FORMATS)
def test_entries_come_back_beside_an_unchanged_network(graph, suffix, tmp_path):
    path = tmp_path / f"m.{suffix}"
    write(graph, path, metadata=SAID)
    assert said(path) == SAID
    write(graph, tmp_path / f"silent.{suffix}")
    assert said(tmp_path / f"silent.{suffix}") == {}
    assert difference(load(path), load(tmp_path / f"silent.{suffix}")) == ""


@pytest.mark.parametrize("suffix", FORMATS)
def test_entries_that_are_too_long_or_too_many_are_left_out(graph, suffix, tmp_path):
    path = tmp_path / f"m.{suffix}"
    write(graph, path, metadata={"long": b"x" * (MOST_BYTES + 1), "most": b"y" * MOST_BYTES})
    assert list(said(path)) == ["most"]
    write(graph, path, metadata={f"{i}": b"z" for i in range(MOST_ENTRIES + 5)})
    assert list(said(path)) == [f"{i}" for i in range(MOST_ENTRIES)]


def test_of_one_name_the_first_entry_counts(graph, tmp_path):
    path = tmp_path / "m.onnx"
    write(graph, path, metadata={"names": b"first"})
    model = onnx.load(path)
    model.metadata_props.add(key="names", value="second")
    onnx.save(model, path)
    assert said(path) == {"names": b"first"}


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_files_give_entries_or_a_sentence(graph, seed, tmp_path):
    for suffix in FORMATS:
        path = tmp_path / f"m.{suffix}"
        write(graph, path, metadata=SAID)
        content = bytearray(path.read_bytes())
        rng = np.random.default_rng(seed)
        for place in rng.integers(0, len(content), 20):
            content[place] = rng.integers(256)
        path.write_bytes(content[: rng.integers(8, len(content) + 1)])
        with suppress(ModelError):  # any other error fails
            assert len(read_metadata(path)) <= MOST_ENTRIES
