"""benchmarks/zoo.py: what needs neither TensorFlow nor PyTorch is read and trained."""

import re

import pytest

from benchmarks import zoo

NAMES = ("gated", "attention", "product")
FORMS = 7  # the float file, and QDQ and operator form by three choices of types


@pytest.mark.slow
def test_networks_are_written_read_and_trained(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    zoo.main([str(tmp_path / "nets"), "--write", "--prepare", "--names", *NAMES])
    printed = capsys.readouterr()
    counts = re.search(r"all\W+(\d+)\W+(\d+)\W+(\d+)", printed.out)
    assert counts is not None
    assert {int(n) for n in counts.groups()} == {len(NAMES) * FORMS}
    assert "operators in the way" not in printed.out


def test_refusals_are_counted_whatever_file_and_node_they_name():
    texts = [
        "/a/m.onnx: Selu (node 'a') is not supported; supported are Add, And, Conv, Mul",
        "/b/n.onnx: Selu (node 'b' and 2 more) is not supported; supported are Add, And, Conv, Mul",
    ]
    found = [zoo.Outcome(f"n{i}", "torch", refusal=text) for i, text in enumerate(texts)]
    (line,) = zoo.refusals(found)
    assert line.startswith("2× FILE: Selu (node …) is not supported\n")
    assert "n0.torch n1.torch" in line
    assert zoo.operators_of(found) == {"Selu": 2}
