"""Damaged int8 files are read or refused without asking for memory that their size cannot mean."""

import random
from pathlib import Path

import pytest

from mcutrain.formats import load
from mcutrain.formats.tflite.write import write_tflite
from tests.formats.bounded import read_bounded, with_huge_numbers, with_huge_words
from tests.formats.test_onnx import modern_model, small_model

DAMAGED = 100
GROWN_BYTES = 128 * 2**20  # measured: below 1 MiB


def read(path: Path) -> object:
    return load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "suffix"), [(small_model, ".onnx"), (modern_model, ".onnx"), (small_model, ".tflite")]
)
def test_huge_numbers_give_a_graph_or_a_sentence_in_bounded_memory(make, suffix, tmp_path):
    model, output = make()
    path = model.save(tmp_path / "model.onnx", output)
    damage = with_huge_numbers
    if suffix == ".tflite":
        write_tflite(load(path), path.with_suffix(suffix))
        path, damage = path.with_suffix(suffix), with_huge_words
    content = path.read_bytes()
    damaged = damage(content, random.Random(3), DAMAGED)
    outcome = read_bounded(read, path, content, damaged)
    assert not outcome.out_of_memory
    assert outcome.grown_bytes < GROWN_BYTES
    assert 0 < outcome.sentences.count("") < DAMAGED
    assert not [sentence for sentence in outcome.sentences if "\n" in sentence]
