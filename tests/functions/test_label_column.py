"""A label column that is named does what one called label does, in every command."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.errors import DataError
from tests.cli.conftest import called
from tests.quant.networks import OnnxNetwork

KINDS = ("hum", "knock", "whistle")


def table(path: Path, label: str, at: int) -> Path:
    """Four channels, of which the largest of three is the class; the label's column at a place."""
    x = np.random.default_rng(1).uniform(-1, 1, (90, 4))
    rows = [["a", "b", "c", "d", "who"]]
    rows += [[*(f"{v:.5f}" for v in row), f"{i % 6}"] for i, row in enumerate(x)]
    names = [label, *(KINDS[i] for i in x[:, :3].argmax(axis=1))]
    lines = [[*row[:at], name, *row[at:]] for row, name in zip(rows, names, strict=True)]
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    return path


@pytest.mark.filterwarnings("ignore::UserWarning")  # that there are few samples
def test_all_commands_read_the_column_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    net = OnnxNetwork([1, 4])
    net.save(Path("m.onnx"), net.gemm(net.op("Relu", net.gemm("input", 4, 8)), 8, 3))
    plain, named = table(Path("plain.csv"), "label", 5), table(Path("named.csv"), "kind", 0)
    how = {
        "epochs": 2,
        "learning_rate": 0.01,
        "scheme": "last:1",
        "class_names": KINDS,
        "split_by": "who",
    }
    mcutrain.fit("m.onnx", plain, "plain", **how)
    found = mcutrain.fit("m.onnx", named, "named", label_column="Kind", **how)
    states = [Path(folder, "state.mcts").read_bytes() for folder in ("plain", "named")]
    assert states[0] == states[1]
    for line in (found.folder / "README.md").read_text().splitlines():
        if line.startswith("mcutrain"):
            assert called(*shlex.split(line)[1:]) == 0
    assert Path("by-hand-trained.tflite").read_bytes() == found.trained.read_bytes()
    model = "named/model.int8.tflite"
    for column in ("kind", "1"):
        asked = ("--data", named, "--label-column", column, "--split-by", "who")
        assert called("plan", model, *asked) == 0
        assert called("generate", model, *asked, "-o", "project") == 0
    said = mcutrain.describe_data(named, model, label_column="kind", split_by="who")
    counts = {each.name: each.train + each.test for each in said.classes}
    assert set(counts) == set(KINDS)
    assert sum(counts.values()) == 90


def test_arrays_have_no_columns(tmp_path: Path) -> None:
    net = OnnxNetwork([1, 3])
    model = net.save(tmp_path / "m.onnx", net.gemm("input", 3, 2))
    x, y = np.ones((20, 3), np.float32), np.arange(20) % 2
    with pytest.raises(DataError, match="the calibration array: a label column is one of a table"):
        mcutrain.quantize(model, x, tmp_path / "i.tflite", label_column="y")
    int8 = mcutrain.quantize(model, x, tmp_path / "i.tflite").path
    with pytest.raises(DataError, match="the data: a label column is one of a table"):
        mcutrain.simulate(int8, (x, y), "head", label_column="y", learning_rate=0.01)
