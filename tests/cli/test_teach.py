"""`mcutrain teach`: words are taught to a board that listens, and the desk replays the lessons."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.errors import BuildError, DataError, McutrainError, OptionError
from tests.cli.conftest import Board, Run, board, done, folder, run
from tests.frontends.networks import float_file, sound_folder, write_wav

__all__ = ["board", "folder", "run"]

RATE_HZ, NAMES = 16_000, ("high", "low", "middle")
PAGE = Path(__file__).parents[2] / "docs/teach.md"


def said_by_the_page() -> list[list[str]]:
    """The commands of docs/teach.md, without the first word; the board is this computer."""
    found = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = "".join(found).replace("\\\n", " ").replace("nucleo-f446re", "native").splitlines()
    commands = [shlex.split(line) for line in lines]
    assert {command[0] for command in commands} == {"mcutrain"}
    return [command[1:] for command in commands]


def words(path: Path, count: int, hertz: int = 1800) -> Path:
    """Words of half a second, a second and a half of quiet around each."""
    random, pieces = np.random.default_rng(hertz + count), []
    time = np.arange(RATE_HZ // 2) / RATE_HZ
    for _ in range(count):
        quiet = np.zeros(RATE_HZ)
        tone = random.uniform(5000, 9000) * np.sin(2 * np.pi * hertz * time)
        pieces += [quiet, tone, quiet]
    x = np.concatenate(pieces)
    write_wav(path, (x + random.normal(0, 30, len(x))).astype(np.int16))
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Firmware for this computer, which knows three sounds and has an output for hello."""
    root = tmp_path_factory.mktemp("teach")
    sound_folder(root / "sounds", 4)
    float_file(root / "m.onnx")
    model = root / "words.int8.tflite"
    mcutrain.quantize(root / "m.onnx", root / "sounds", model, frontend="audio")
    first = said_by_the_page()[:3]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for command in first:
            done(*command, *(("-O", "1") if command[0] == "build" else ()))
    return root / "project"


@pytest.mark.slow
def test_a_word_is_taught_recorded_and_taken_back(board: Board, folder: Path, run: Run) -> None:
    new, again, undo, less, forget = said_by_the_page()[3:8]
    port = ("--port", board.url)
    hello = words(folder.parent / "hello.wav", 5)
    first = run(*new, "--hear", hello, *port)
    assert first.out.splitlines() == [
        "hello, output 3, was learnt from 5 windows; 4 steps, save 2.",
        "The desk's replay of the lessons has the board's state.",
    ]
    words(folder.parent / "low.wav", 1, 300)
    found = run(*again, *port, "--json").json
    assert (found["kind"], found["label"], found["position"]) == ("lesson", 1, 8)
    assert found["agrees"]
    taught = mcutrain.pull(folder, "s.mcts", port=board.url).saved
    assert mcutrain.taught_state(folder, "lessons") == taught
    board.cut_power()
    board.start()
    undone = run(*undo, *port)
    assert undone.out.startswith("the board is what it was before its last lesson; 4 steps")
    assert undone.out.endswith("has the board's state.\n")
    with pytest.raises(BuildError, match="there is no lesson to undo"):
        mcutrain.teach(folder, undo=True, port=board.url, record="lessons")
    assert run(*less, *port).out.splitlines() == [
        "hello, output 3, is what it was when it was flashed; 4 steps, save 5.",
        "The desk's replay of the lessons has the board's state.",
    ]
    with pytest.raises(BuildError, match="there is no lesson to undo"):
        mcutrain.teach(folder, undo=True, port=board.url)
    assert run(*forget, *port).out.startswith("the board is what it was when it was flashed; 0 ")
    assert mcutrain.taught_state(folder, "lessons") == mcutrain.pull(folder, port=board.url).saved
    rows = Path("lessons/lessons.jsonl").read_text().splitlines()
    kinds = [json.loads(row)["kind"] for row in rows]
    assert kinds == ["class", "lesson", "undo", "forget class", "forget"]
    with np.load("lessons/samples.npz") as arrays:
        assert (arrays["x"].shape[0], arrays["y"].tolist()) == (6, [3, 3, 3, 3, 3, 1])
        assert arrays["names"].tolist() == [*NAMES, "hello"]


@pytest.mark.slow
def test_what_was_recorded_is_data_for_simulate(
    board: Board, project: Path, folder: Path, tmp_path: Path
) -> None:
    for name, hertz in (("low", 300), ("high", 3000)):
        sound = words(folder / f"{name}.wav", 1, hertz)
        for _ in range(2):
            mcutrain.teach(folder, name, hear=sound, port=board.url, record=tmp_path / "lessons")
    model, how = (
        project.parent / "words.int8.tflite",
        {"epochs": 1, "learning_rate": 0.01, "test_share": 0.5},
    )
    found = mcutrain.simulate(model, tmp_path / "lessons/samples.npz", "head", **how)
    assert found.steps == 2


def test_what_cannot_be_taught_is_a_sentence(board: Board, folder: Path, tmp_path: Path) -> None:
    port = {"port": board.url}
    with pytest.raises(OptionError, match="stands alone"):
        mcutrain.teach(folder, "low", undo=True, **port)
    with pytest.raises(OptionError, match="stands alone"):
        mcutrain.teach(folder, **port)
    with pytest.raises(OptionError, match="name the class"):
        mcutrain.teach(folder, undo=True, hear=tmp_path / "one.wav", **port)
    with pytest.raises(OptionError, match="stands alone"):
        mcutrain.teach(folder, undo=True, forget=True, **port)
    with pytest.raises(OptionError, match="name the class"):
        mcutrain.teach(folder, "low", forget=True, hear=tmp_path / "one.wav", **port)
    with pytest.raises(OptionError, match="this one is forgotten"):
        mcutrain.teach(folder, "low", forget=True, samples=2, **port)
    with pytest.raises(OptionError, match="give record, too"):
        mcutrain.teach(folder, "low", check=True, **port)
    with pytest.raises(DataError, match="no output is called 'cap'"):
        mcutrain.teach(folder, "cap", **port)
    with pytest.raises(BuildError, match="has not heard a whole window yet"):
        mcutrain.teach(folder, "low", **port)
    sound = words(tmp_path / "one.wav", 1)
    with pytest.raises(BuildError, match="heard 1 of 2 samples"):
        mcutrain.teach(folder, "hello", samples=2, hear=sound, **port)
    with pytest.raises(BuildError, match="heard 0 of 2 samples"):
        mcutrain.teach(folder, "hello", samples=2, wait=0.1, **port)
    with pytest.raises(DataError, match="give a WAV file"):
        mcutrain.teach(folder, "low", hear=tmp_path / "none.wav", **port)
    write_wav(tmp_path / "slow.wav", np.zeros(8000, np.int16), 8000)
    with pytest.raises(DataError, match="one channel of 16-bit PCM"):
        mcutrain.teach(folder, "low", hear=tmp_path / "slow.wav", **port)
    (tmp_path / "file").write_text("")
    with pytest.raises(McutrainError, match="cannot write"):
        mcutrain.teach(folder, "low", hear=sound, record=tmp_path / "file", **port)
    assert mcutrain.teach(folder, "low", hear=sound, steps=1, **port).save_number == 2


def test_damaged_lessons_are_a_sentence(board: Board, folder: Path, tmp_path: Path) -> None:
    port = {"port": board.url, "record": tmp_path / "lessons"}
    mcutrain.teach(folder, "low", hear=words(tmp_path / "one.wav", 1), **port)
    lines, samples = tmp_path / "lessons/lessons.jsonl", tmp_path / "lessons/samples.npz"
    text, whole = lines.read_text(), samples.read_bytes()
    line = json.loads(text)
    wrong = [
        {"windows": [7]},
        {"windows": []},
        {"windows": [0.0]},
        {"label": -1},
        {"kind": "class", "windows": []},
        {"kind": "other"},
        *({"kind": "forget class", "label": label} for label in (-1, 4, 0.5, "low")),
        {"shift": "a"},
    ]
    texts = ["{", "3", *(json.dumps({**line, **changed}) for changed in wrong)]
    for damaged in texts:
        lines.write_text(damaged)
        with pytest.raises(DataError, match="holds no lessons that can be read"):
            mcutrain.teach(folder, "low", **port)
    lines.write_text(text)
    for content in (b"", b"PK\3\4", whole[:300]):
        samples.write_bytes(content)
        with pytest.raises(DataError, match="holds no lessons that can be read"):
            mcutrain.teach(folder, "low", **port)
    lines.unlink()
    with pytest.raises(DataError, match="of no lessons: give another folder"):
        mcutrain.teach(folder, "low", **port)
    assert samples.read_bytes() == whole[:300]


@pytest.mark.slow
def test_a_class_that_was_not_finished_leaves_the_board_as_it_was(
    board: Board, folder: Path, tmp_path: Path
) -> None:
    given = {"port": board.url, "record": tmp_path / "lessons", "check": True}
    low, hello = words(tmp_path / "low.wav", 1, 300), words(tmp_path / "hello.wav", 2)
    for _ in range(9):  # the ring is full
        assert mcutrain.teach(folder, "low", hear=low, steps=1, **given).agrees
    with pytest.raises(BuildError, match="heard 2 of 3 samples"):
        mcutrain.teach(folder, "hello", samples=3, hear=hello, **given)
    assert mcutrain.teach(folder, "low", hear=low, replay=2, **given).agrees
    assert mcutrain.teach(folder, undo=True, **given).agrees
    assert mcutrain.teach(folder, "hello", samples=2, hear=hello, replay=1, **given).agrees
