"""Commands on rows of a motion sensor: CSV folders, arrays and features come to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mcutrain
from mcutrain.data.layout import InputOrder
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.features import listening_bytes
from mcutrain.frontends import parse
from mcutrain.ir.graph import Graph
from tests.frontends.networks import gestures, sound_folder

NAMES = ("rest", "shake", "turn")
FRONT = parse("motion:gravity=4,magnitude=3,unit=1024", (16, 4))
ORDER = InputOrder.own((16, 4, 1))


def rows_of(seed: int, label: int, count: int) -> npt.NDArray[np.int16]:
    """Gravity along an axis, and a wave of the class's own frequency."""
    random, time = np.random.default_rng(seed), np.arange(count)[:, np.newaxis]
    wave = 3000 * (label > 0) * np.sin(time * (0.3, 0.3, 1.2)[label] + np.arange(3))
    values = np.array([0, 0, 8192]) + wave + random.normal(0, 100, (count, 3))
    return np.rint(values).astype(np.int16)


def write_csv(path: Path, rows: npt.NDArray[Any]) -> None:
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    path.write_text(f"time,ax,ay,az\n{text}\n".replace("\n", "\n0,").removesuffix("0,"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three gestures, two recordings each of four windows."""
    root = tmp_path_factory.mktemp("motion") / "data"
    for label, name in enumerate(NAMES):
        (root / name).mkdir(parents=True)
        for i in range(2):
            write_csv(root / name / f"{i}.csv", rows_of(10 * label + i, label, 64))
    return root


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gestures(FRONT)


def whole(folder: Path, order: InputOrder = ORDER, **more: Any) -> Any:
    return mcutrain.data.load(folder, order=order.with_frontend(FRONT.text), **more)


def trained(graph: Graph, data: Any, **more: Any) -> bytes:
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "class_names": NAMES, **more}
    return bytes(mcutrain.simulate(graph, data, "head", **how).saved)


def test_windows_of_a_csv_folder_are_those_of_the_rows(folder: Path) -> None:
    split = whole(folder)
    assert (len(split.train), len(split.test)) == (12, 12)
    windows = {
        FRONT.real(rows_of(10 * label + i, label, 64)[np.newaxis, 16 * k : 16 * k + 16])[
            0
        ].tobytes()
        for label in range(3)
        for i in range(2)
        for k in range(4)
    }
    for part in (split.train, split.test):
        assert part.is_in_order
        assert {x.tobytes() for x in part.x} <= windows
    assert len(whole(folder, stride=8).train) > 12
    drawn = load_samples(folder, 5, order=ORDER.with_frontend(FRONT.text))
    assert {x.tobytes() for x in drawn} <= windows


def test_csv_files_arrays_and_features_train_alike(folder: Path, graph: Graph) -> None:
    split = whole(folder)
    parts: dict[str, Any] = {}
    for name, part in (("train", split.train), ("test", split.test)):
        parts[f"x_{name}"], parts[f"y_{name}"] = part.x, part.y
    expected = trained(graph, parts)
    assert trained(graph, folder) == expected
    x = np.stack([rows_of(s, 1, 16) for s in range(6)])
    y = np.array([0, 1, 2, 0, 1, 2])
    real = FRONT.real(x)[..., np.newaxis]
    assert trained(graph, (x, y), test_share=0.5) == trained(graph, (real, y), test_share=0.5)


def test_plan_and_library_know_the_rows(graph: Graph) -> None:
    found = mcutrain.plan(graph, "head")
    assert found.listening is not None
    assert found.listening.sram_bytes == listening_bytes(FRONT)
    assert f"the front end {FRONT.text}; a frame takes " in found.listening.summary()


def test_other_numbers_and_files_get_a_sentence(folder: Path, tmp_path: Path, graph: Graph) -> None:
    for name in NAMES:
        (tmp_path / "data" / name).mkdir(parents=True)
        write_csv(tmp_path / "data" / name / "0.csv", rows_of(0, 0, 64))
    write_csv(tmp_path / "data" / "turn" / "0.csv", rows_of(0, 0, 64) / 8)
    with pytest.raises(DataError, match=r"'turn' has .*whole numbers from -32,768"):
        trained(graph, tmp_path / "data")
    write_csv(tmp_path / "data" / "turn" / "0.csv", rows_of(0, 0, 64).astype(np.int64) * 8)
    with pytest.raises(DataError, match=r"'turn' has .*to 32,767"):
        trained(graph, tmp_path / "data")
    for name in NAMES:
        text = "\n".join("1,2" for _ in range(64))
        (tmp_path / "data" / name / "0.csv").write_text(f"a,b\n{text}\n")
    with pytest.raises(DataError, match=r"2 columns of numbers, but the front end motion takes 3"):
        trained(graph, tmp_path / "data")
    with pytest.raises(DataError, match=r"takes rows of numbers.*there are sounds"):
        trained(graph, sound_folder(tmp_path / "sounds", 2))
    with pytest.raises(DataError, match=r"takes int16 samples.*rows of 3 axes"):
        trained(graph, (np.zeros((6, 16, 2), np.int16), [0, 1, 2, 0, 1, 2]))
