"""What a user gives, or a command kept, is read no further than it can be long."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.cache import is_sound, writing
from mcutrain_host.saved import HEADER, MAGIC, VERSION, SavedState

from mcutrain.demo import MODEL
from mcutrain.simulation.kept_latents import keep_latents, read_latents
from tests.cli.conftest import Run

LONG = 3 * 10**9
BOMB_BYTES = 96 << 20
MOST_BYTES = 64 << 20
"""Of memory, more than reading these sentences takes."""
FEW = ("--scheme", "head", "--samples", 8, "--test-samples", 4, "--epochs", 1, "--lr", "0.02")


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def sparse(path: Path, begin: bytes = b"") -> Path:
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(LONG)
    return path


def bomb(path: Path, source: Path, key: str = "saved") -> Path:
    """A checkpoint of which one array unpacks to BOMB_BYTES."""
    with np.load(source) as file:
        others = {name: file[name] for name in file.files if name != key}
    np.savez(path, **others)
    header = str({"descr": "|u1", "fortran_order": False, "shape": (BOMB_BYTES,)}).encode()
    header += b" " * (117 - len(header)) + b"\n"
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{key}.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        for _ in range(BOMB_BYTES >> 20):
            member.write(bytes(1 << 20))
    return path


@pytest.fixture
def checkpoint(run: Run, images: Path) -> Path:
    done = run("simulate", MODEL, "--data", images, *FEW, "--checkpoint", "run.npz",
               "--save-state", "run.mcts")  # fmt: skip
    assert done.code == 0, done.err
    return Path("run.npz")


@pytest.mark.slow
def test_a_state_is_read_no_further_than_the_model_says(
    run: Run, images: Path, checkpoint: Path
) -> None:
    raw = SavedState.parse(Path("run.mcts").read_bytes(), "run.mcts").raw
    bomb(Path("bomb.npz"), checkpoint)
    bomb(Path("text.npz"), checkpoint, "recipe")
    sparse(Path("zeros.mcts"))
    sparse(Path("says.mcts"), HEADER.pack(MAGIC, VERSION, 1, LONG - 24))
    sparse(Path("behind.mcts"), raw)
    os.mkfifo("pipe.mcts")
    says = {
        "bomb.npz": f"was trained with another model, or with other flags than these: --scheme "
        f"head, 10 classes, --accumulate 1, no gate; give those of the training, and the version "
        f"of mcutrain that it was made with; bomb.npz: saved.npy claims {BOMB_BYTES + 128}",
        "text.npz": "is no checkpoint of mcutrain, or a damaged one: recipe.npy",
        "zeros.mcts": "is no trained state of this version of mcutrain",
        "says.mcts": "says that its state has 3,000,000,000 bytes, and that of this model",
        "behind.mcts": "is damaged: its size or checksum is wrong; 2,99",
        "pipe.mcts": "cannot read pipe.mcts: it is no regular file",
        "/dev/zero": "cannot read /dev/zero: it is no regular file",
    }
    for name, sentence in says.items():
        with little_memory():
            done = run("export", MODEL, "--state", name, "--scheme", "head", "-o", "a.tflite")
        assert sentence[:90] in done.sentence, name
    simulate = ("simulate", MODEL, "--data", images, *FEW)
    with little_memory():
        again = run(*simulate, "--checkpoint", "bomb.npz").sentence
        assert "bomb.npz is no checkpoint of mcutrain, or a damaged one: give another" in again
        assert f"saved.npy claims {BOMB_BYTES + 128}" in again
        after = run(*simulate, "--after", "bomb.npz").sentence
        assert f"saved.npy claims {BOMB_BYTES + 128}" in after
        ring = ("--replay", 1, "--remember", 4)
        assert run(*simulate, *ring, "--checkpoint", "first.npz").code == 0
        bomb(Path("ring.npz"), Path("first.npz"), "ring_x")
        again = run(*simulate, *ring, "--after", "ring.npz").sentence
        assert f"ring_x.npy claims {BOMB_BYTES + 128}" in again
    assert not Path("a.tflite").exists()


ENDLESS = ["/dev/zero", "sparse"]


@pytest.mark.parametrize("kind", ENDLESS)
def test_texts_are_read_no_further_than_any_is_long(
    run: Run, images: Path, kind: str, tmp_path: Path
) -> None:
    sparse(tmp_path / "sparse")
    why = "it is no regular file" if kind == "/dev/zero" else "it has 3,000,000,000 bytes"

    def place(*parts: str) -> Path:
        path = Path(*parts)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(kind if kind.startswith("/") else tmp_path / kind)
        return path

    for name in ("project/manifest.json", "out/report.json", "ladder/ladder.json", "s.toml",
                 "a.json", "p.json", "board/board.toml", "m.tflite", "m.onnx"):  # fmt: skip
        place(name)
    data = ("--data", images)
    commands = {
        ("report", "project"): "project/manifest.json",
        ("report", "out"): "out/report.json",
        ("train", "project", *data, "--port", "none"): "project/manifest.json",
        ("build", "project"): "project/manifest.json",
        ("generate", MODEL, "--proxies", "ladder", "-o", "new"): "ladder/ladder.json",
        ("plan", MODEL, "--scheme", "s.toml"): "s.toml",
        ("select", MODEL, "--analysis", "a.json", "--sram", "64K"): "a.json",
        ("plan", MODEL, "--board", "board"): "board",
        ("info", "m.tflite"): "m.tflite",
        ("info", "m.onnx"): "m.onnx",
    }  # fmt: skip
    for command, file in commands.items():
        with little_memory():
            done = run(*command)
        assert file.split("/")[0] in done.sentence, command
        if command[0] not in ("report", "info") and file != "board":
            assert why in done.sentence, command


def test_a_log_is_read_line_by_line(run: Run, tmp_path: Path) -> None:
    assert run("generate", MODEL, "-o", "project").code == 0
    lines = [{"event": "connected", "position": 0, "board": "b"}]
    lines += [{"event": "step", "position": i, "loss": 1.5, "is_right": True} for i in range(50)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    log = Path("project/train.jsonl")
    log.write_text(text + '{"event": "st')
    assert run("report", "project").code == 0
    sparse(log, text.encode())
    with little_memory():
        assert "project/train.jsonl, line 52 is longer than" in run("report", "project").sentence


def test_kept_latents_of_another_kind_are_none(tmp_path: Path) -> None:
    path = tmp_path / "kept.npy"
    values = np.arange(12, dtype=np.int8).reshape(3, 4)
    keep_latents(path, values)
    assert np.array_equal(read_latents(path, (3, 4)), values)
    with writing(path) as part, part.open("wb") as file:
        np.savez(file, x=values)
    assert is_sound(path)
    assert read_latents(path, (3, 4)) is None
    with writing(path) as part, part.open("wb") as file:
        np.save(file, np.array([{}], dtype=object))
    assert read_latents(path, (1,)) is None
