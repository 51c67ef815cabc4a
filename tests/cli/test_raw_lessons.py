"""Lessons from raw samples: rows of a motion sensor and sound, replayed on the desk from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain.errors import BuildError, DataError
from mcutrain.frontends import parse
from tests.cli.conftest import Run, run
from tests.frontends.networks import gestures
from tests.frontends.test_motion_commands import NAMES, rows_of, write_csv

__all__ = ["run"]
RATE_HZ, FRAMES = 50, 16
FRONT = f"motion:gravity=4,magnitude=3,unit=2048,axes=3,frames={FRAMES},rate={RATE_HZ}"
"""Gravity is what was before: raw samples of a window alone do not give the window."""
GRAPH = gestures(parse(FRONT))


def zigzags(path: Path, count: int, seed: int = 5) -> Path:
    """A new gesture, half a second each, and rest before and behind it."""
    random, rest, time = np.random.default_rng(seed), [], np.arange(24)[:, np.newaxis]
    for _ in range(count):
        wave = 6000 * np.sin(0.7 * time + np.arange(3))
        rest += [np.zeros((40, 3)), wave, np.zeros((40, 3))]
    x = np.concatenate(rest) + np.array([0, 0, 8192])
    write_csv(path, np.rint(x + random.normal(0, 1, x.shape)).astype(np.int16))
    return path


def project_of(root: Path, board: str, **more: Any) -> Path:
    for label, name in enumerate(NAMES):
        (root / "data" / name).mkdir(parents=True)
        for i in range(2):
            write_csv(root / "data" / name / f"{i}.csv", rows_of(10 * label + i, label, 64))
    (root / "data/zigzag").mkdir()
    for i in range(2):
        zigzags(root / f"data/zigzag/{i}.csv", 1, i)
    mcutrain.generate(
        *(GRAPH, root / "project", "head"),
        board=board,
        data=root / "data",
        listen=True,
        history=40,
        app="learn",
        classes=4,
        imprint=True,
        remember=4,
        class_names=(*NAMES, "zigzag"),
        **more,
    )
    mcutrain.build(root / "project", optimize="1")
    return root / "project"


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Firmware of a board without a sensor of its own."""
    return project_of(tmp_path_factory.mktemp("nano"), "arduino-nano-33-ble")


@pytest.mark.slow
def test_a_gesture_is_taught_from_rows_and_replayed_from_the_files(
    nano: Path, tmp_path: Path, run: Run
) -> None:
    three, lessons = zigzags(tmp_path / "three.csv", 3), tmp_path / "lessons"
    with mcutrain.virtual_board(nano, link="tcp") as board:
        how: dict[str, Any] = {"port": board.port, "record": lessons, "check": True}
        first = mcutrain.teach(nano, "zigzag", hear=three, samples=3, **how)
        assert (first.samples, first.label, first.agrees) == (3, 3, True)
        for i in range(2):
            shake = nano.parent / f"data/shake/{i}.csv"
            assert mcutrain.teach(nano, "shake", hear=shake, **how).agrees
        clip = lessons / "raw/zigzag/0001.csv"
        assert len(clip.read_text().splitlines()) == 1 + FRAMES
        assert mcutrain.teach(nano, "zigzag", hear=clip, replay=1, **how).agrees
        state = mcutrain.pull(nano, tmp_path / "s.mcts", port=board.port).saved
        (tmp_path / "two.csv").write_text("a,b\n1,2\n")
        with pytest.raises(DataError, match="columns of numbers, but the front end motion takes 3"):
            mcutrain.teach(nano, "shake", hear=tmp_path / "two.csv", **how)
    assert mcutrain.taught_state(nano, lessons) == state
    lines = [json.loads(line) for line in (lessons / "lessons.jsonl").read_text().splitlines()]
    assert [line["stream"] for line in lines] == [f"streams/000{i}.csv" for i in range(4)]
    assert [len(line["ends"]) for line in lines] == [3, 1, 1, 1]
    found = mcutrain.simulate(GRAPH, lessons / "raw", "head", classes=2, epochs=1, test_share=0.3)
    assert found.steps > 0
    stream = lessons / "streams/0000.csv"
    text = stream.read_text()
    stream.write_text(text.replace(text.splitlines()[50], "0,0,0", 1))
    with pytest.raises(DataError, match=r"0000\.csv are not those that the board"):
        mcutrain.taught_state(nano, lessons)
    stream.unlink()
    with pytest.raises(DataError, match="cannot read"):
        mcutrain.taught_state(nano, lessons)
    line = json.dumps({**lines[0], "stream": "../lessons.jsonl"})
    (lessons / "lessons.jsonl").write_text(line)
    with pytest.raises(DataError, match="holds no lessons that can be read"):
        mcutrain.taught_state(nano, lessons)


@pytest.mark.slow
def test_a_virtual_sensor_is_heard_and_its_rows_are_brought_back(
    nano: Path, tmp_path: Path
) -> None:
    folder = project_of(tmp_path, "nucleo-f446re", sensor=True, keep_samples=400)
    one = zigzags(tmp_path / "one.csv", 1)
    lessons = tmp_path / "lessons"
    with mcutrain.virtual_board(folder, link="tcp", play=one) as board:
        how: dict[str, Any] = {"port": board.port, "record": lessons, "check": True}
        found = mcutrain.teach(folder, "zigzag", samples=2, wait=60, **how)
        assert (found.samples, found.agrees) == (2, True)
    (line,) = [json.loads(one) for one in (lessons / "lessons.jsonl").read_text().splitlines()]
    assert line["stream"] == "streams/0000.csv"
    played = set(one.read_text().splitlines())
    brought = {f"0,{row}" for row in (lessons / "streams/0000.csv").read_text().splitlines()[1:]}
    assert brought <= played
    assert mcutrain.taught_state(folder, lessons)
    with pytest.raises(BuildError, match="reads no source of samples"):
        mcutrain.virtual_board(nano, play=one)
