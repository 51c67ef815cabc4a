"""A board that listens is sent raw samples, and learns what a simulation learns of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.client import Device

import mcutrain
from tests.frontends.networks import float_file, sound_folder
from tests.frontends.test_commands import NAMES, raw

HOW: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "class_names": NAMES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds in data/, a model whose file says its front end, and firmware that listens."""
    root = tmp_path_factory.mktemp("listening")
    sound_folder(root / "data", 3)
    float_file(root / "m.onnx")
    mcutrain.quantize(root / "m.onnx", root / "data", root / "m.tflite", frontend="audio")
    options = {"board": "native", "listen": True, "remember": 3}
    mcutrain.generate(root / "m.tflite", root / "project", "head", **options)
    mcutrain.build(root / "project", optimize="1")
    return root


@pytest.fixture
def port(folder: Path, tmp_path: Path) -> Iterator[str]:
    command = [folder / "project/build/firmware", "--port", "tcp:0", "--state", tmp_path / "slots"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        found = re.match(r"port (\S+)", program.stdout.readline())
        assert found
        yield found[1]
        program.kill()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What of samples was sent, by the method's name."""
    found: list[str] = []
    for name in ("send_raw", "send_sample", "send_latent"):
        method = getattr(Device, name)

        def noting(self: Device, data: bytes, name: str = name, method: Any = method) -> None:
            found.append(name)
            method(self, data)

        monkeypatch.setattr(Device, name, noting)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("replay", [0, 1])
def test_sounds_go_to_the_board_as_they_are(
    folder: Path, port: str, sent: list[str], tmp_path: Path, replay: int
) -> None:
    how = {**HOW, "replay": replay}
    ring = {"remember": 3} if replay else {}
    expected = mcutrain.simulate(folder / "m.tflite", folder / "data", "head", **how, **ring)
    files = {"state": tmp_path / "s.mcts", "log": tmp_path / "log.jsonl"}
    found = mcutrain.train_board(folder / "project", folder / "data", port=port, **how, **files)
    assert found.saved == expected.saved
    assert set(sent) == {"send_raw"}
    assert found.accuracy == expected.accuracy


def test_features_at_hand_are_sent_as_before(
    folder: Path, port: str, sent: list[str], tmp_path: Path
) -> None:
    x, y = raw(folder)
    order = mcutrain.load(folder / "m.tflite").input_order
    assert order is not None
    assert order.frontend is not None
    features = (order.frontend.real(x)[..., np.newaxis], y)
    files = {"state": tmp_path / "s.mcts", "log": tmp_path / "log.jsonl"}
    found = mcutrain.train_board(folder / "project", features, port=port, **HOW, **files)
    assert "send_raw" not in sent
    by_sounds = mcutrain.simulate(folder / "m.tflite", (x, y), "head", **HOW)
    assert found.saved == by_sounds.saved
