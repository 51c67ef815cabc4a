"""Names of classes in model files: where others write them, and where mcutrain does."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import flatbuffers
import numpy as np
import onnx
import pytest

from mcutrain.errors import ModelError
from mcutrain.formats import load, patch, write
from mcutrain.formats.class_names import KEY, TFLITE_METADATA, read_class_names
from mcutrain.formats.metadata import read_metadata
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from tests.trained.networks import classifier

FORMATS = ("tflite", "onnx")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path = tmp_path_factory.mktemp("model") / "m.tflite"
    path.write_bytes(classifier())
    return load(path)


@pytest.fixture(scope="module")
def names(graph: Graph) -> tuple[str, ...]:
    """One for each output."""
    outputs = graph.tensors[graph.outputs[0]].type.shape[-1]
    return tuple(f"Größe {i}" for i in reversed(range(outputs)))


def metadata_of(files: dict[str, int]) -> bytes:
    """TensorFlow Lite's, with files of these types for the output; 2 labels its axis."""
    builder = flatbuffers.Builder(0)

    def vector(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def table(slots: int, slot: int, offset: int) -> int:
        builder.StartObject(slots)
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(builder.EndObject())

    found = []
    for name, kind in files.items():
        text = builder.CreateString(name)
        builder.StartObject(5)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        builder.PrependInt8Slot(2, kind, 0)
        found.append(builder.EndObject())
    output = table(7, 6, vector(found))
    part = table(7, 3, vector([output]))
    builder.Finish(table(8, 3, vector([part])), b"M001")
    return bytes(builder.Output())


def with_files(path: Path, graph: Graph, types: dict[str, int], texts: dict[str, str]) -> None:
    write(graph, path, metadata={TFLITE_METADATA: metadata_of(types)} if types else None)
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)


def lines(names: tuple[str, ...]) -> str:
    return "".join(f"{name}\n" for name in names)


def test_the_label_file_of_the_output_is_found_among_others(
    graph: Graph, names: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    other = lines(tuple(reversed(names)))
    texts = {"vocabulary.txt": other, "labels.txt": lines(names), "labels_de.txt": other}
    with_files(path, graph, {"vocabulary.txt": 4, "labels.txt": 2}, texts)
    assert load(path).class_names == names


def test_one_text_behind_the_file_is_the_labels_and_of_several_none(
    graph: Graph, names: tuple[str, ...], tmp_path: Path
) -> None:
    one, two = tmp_path / "one.tflite", tmp_path / "two.tflite"
    with_files(one, graph, {}, {"labels.txt": lines(names), "model.bin": "?"})
    with_files(two, graph, {}, {"a.txt": lines(names), "b.txt": lines(names[::-1])})
    assert load(one).class_names == names
    assert load(two).class_names == ()


@pytest.mark.parametrize("key", ["names", "classes", "labels", "class_names", "id2label"])
def test_onnx_metadata_names_the_classes_in_several_ways(
    graph: Graph, names: tuple[str, ...], key: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    numbered = dict(enumerate(names))
    for text in (str(numbered), json.dumps(numbered), json.dumps(names), ",".join(names)):
        write(graph, path, metadata={key: text.encode()})
        assert load(path).class_names == names


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_mcutrain_wrote_counts_before_all_else(
    graph: Graph, names: tuple[str, ...], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"m.{suffix}"
    others = json.dumps(names[::-1]).encode()
    write(replace(graph, class_names=names), path, metadata={"names": others})
    if suffix == "tflite":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("labels.txt", lines(names[::-1]))
    found = load(path)
    assert found.class_names == names
    assert difference(found, graph) == ""


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_list_without_a_name_for_each_output_is_none(
    graph: Graph, names: tuple[str, ...], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"m.{suffix}"
    write(replace(graph, class_names=names[1:]), path)
    assert KEY not in read_metadata(path)
    for others in (names[1:], (*names, "background")):
        write(graph, path, metadata={KEY: json.dumps(others).encode()})
        assert load(path).class_names == ()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_patched_file_says_the_trained_models_names_and_keeps_the_rest(
    graph: Graph, names: tuple[str, ...], suffix: str, tmp_path: Path
) -> None:
    source, path = tmp_path / f"m.{suffix}", tmp_path / f"trained.{suffix}"
    write(graph, source, metadata={"mcutrain.test": b"kept"})
    original = load(source)
    assert patch(source, original, replace(original, class_names=names), path) == ""
    assert load(path).class_names == names
    assert read_metadata(path)["mcutrain.test"] == b"kept"
    named, again = load(path), tmp_path / f"again.{suffix}"
    assert patch(path, named, replace(named, class_names=()), again) == ""
    assert load(again).class_names == ()
    assert read_metadata(again)["mcutrain.test"] == b"kept"
    assert patch(path, named, named, again) == ""
    assert again.read_bytes() == path.read_bytes()


def test_a_patched_tflite_file_has_the_new_names_in_its_label_file_too(
    graph: Graph, names: tuple[str, ...], tmp_path: Path
) -> None:
    source, path = tmp_path / "m.tflite", tmp_path / "trained.tflite"
    texts = {"labels.txt": lines(names), "vocabulary.txt": "kept"}
    with_files(source, graph, {"labels.txt": 2}, texts)
    original = load(source)
    renamed = tuple(f"new {i}" for i in range(len(names)))
    assert patch(source, original, replace(original, class_names=renamed), path) == ""
    with zipfile.ZipFile(path) as archive:
        assert archive.read("labels.txt").decode() == lines(renamed)
        assert archive.read("vocabulary.txt") == b"kept"
    assert load(path).class_names == renamed


def test_damaged_metadata_and_archives_give_no_names_and_no_error_of_ours(
    graph: Graph, names: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    with_files(path, graph, {"labels.txt": 2}, {"labels.txt": lines(names)})
    content = path.read_bytes()
    begin = content.index(b"M001") - 4
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(begin, len(content), 6):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(ModelError):  # any other error fails
            assert len(read_class_names(path, len(names))) in (0, len(names))


def test_names_of_an_onnx_file_outlive_other_entries(graph: Graph, tmp_path: Path) -> None:
    """A file from elsewhere that has entries without content."""
    path = tmp_path / "m.onnx"
    write(graph, path)
    model = onnx.load(path)
    model.metadata_props.add(key="names", value="")
    buffer = io.BytesIO()
    onnx.save(model, buffer)
    path.write_bytes(buffer.getvalue())
    assert load(path).class_names == ()
