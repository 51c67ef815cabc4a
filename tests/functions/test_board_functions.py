"""What commands do with boards and projects, from Python: the same values, the same files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host import ports as serial
from mcutrain_host.ports import Port

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import ArgumentError, BuildError, DataError, McutrainError, OptionError
from mcutrain.runs.sample_reading import load_data
from tests.cli.conftest import Board, Run, board, folder, run
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_pty

__all__ = ["board", "folder", "run"]

HATS = np.full((6, 28, 28, 1), 200, np.uint8)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project for this computer, which learns an eleventh class."""
    made = tmp_path_factory.mktemp("native") / "project"
    names = load_data(mcutrain.load(MODEL), IMAGES).names
    options = {"board": "native", "imprint": True, "added": ["hat"], "class_names": names}
    mcutrain.generate(MODEL, made, data=IMAGES, **options)
    built = mcutrain.build(made, optimize="1")
    assert (built.elf.is_file(), built.memory, built.uf2) == (True, None, None)
    assert built.to_dict()["elf"] in repr(built)
    return made


def test_a_board_learns_a_class_and_what_it_has_learnt_is_brought_here(
    board: Board, folder: Path, run: Run
) -> None:
    data = {"x": HATS, "y": np.zeros(6, np.int64), "names": ["hat"]}
    with pytest.raises(DataError, match="no output is called 'cap'"):
        mcutrain.imprint(folder, data, "cap", port=board.url)
    np.savez("hats.npz", **data)
    found = mcutrain.imprint(folder, "hats.npz", "hat", port=board.url)
    assert (found.name, found.label, found.others, found.samples) == ("hat", 10, 10, 6)
    printed = run("imprint", folder, "--data", "hats.npz", "--class", "hat", "--port", board.url)
    assert printed.out.startswith(f"{found.summary()}.\n")


def test_what_a_board_has_learnt_is_what_the_command_brings(
    board: Board, folder: Path, run: Run
) -> None:
    few = {"samples": 10, "test_samples": 0, "epochs": 1, "learning_rate": 0.03}
    trained = mcutrain.train_board(folder, IMAGES, port=board.url, **few)
    found = mcutrain.pull(folder, "mine.mcts", port=board.url)
    assert found.saved == trained.saved
    assert (found.position, found.has_slots, found.state) == (10, True, Path("mine.mcts"))
    printed = run("pull", folder, "--port", board.url, "-o", "other.mcts", "--json").json
    assert printed == {**found.to_dict(), "state": "other.mcts"}
    assert printed["state_sha256"] == hashlib.sha256(trained.saved).hexdigest()


def test_what_cannot_be_flashed_or_built_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="usb"):
        mcutrain.flash(folder, way="usb")
    with pytest.raises(BuildError, match="is no generated project"):
        mcutrain.build(tmp_path)
    with pytest.raises(ArgumentError, match="optimize is 'fast'"):
        mcutrain.build(folder, optimize="fast")
    with pytest.raises(BuildError):
        mcutrain.virtual_board(folder)
    with pytest.raises(OptionError, match="empty needs Unicorn"):
        mcutrain.virtual_board(folder, emulator="qemu", empty=True)


def test_firmware_is_copied_and_the_value_says_so(folder: Path, tmp_path: Path, run: Run) -> None:
    found = mcutrain.flash(folder, way="local", to=str(tmp_path / "copy"))
    assert (found.way, found.identity, found.silent) == ("local", None, "")
    assert (tmp_path / "copy").is_file()
    flags = ("--way", "local", "--to", tmp_path / "copy", "--json")
    assert run("flash", folder, *flags).json == found.to_dict()


@pytest.mark.slow
def test_ports_are_listed_and_asked(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    with on_pty(lambda data: b"") as silent, on_pty(FakeDevice().receive) as path:
        there = [Port(p, "a cable", 0x0483, 0x374B, None) for p in (silent, path)]
        monkeypatch.setattr(serial, "find_ports", lambda: there)
        quiet, asked = mcutrain.ports(), mcutrain.ports(probe=True)
        assert run("ports", "--json").json == quiet.to_dict()
    assert quiet.answers == ()
    assert quiet.records()[0] == {"port": silent, "description": "a cable", "USB": "0483:374b"}
    assert [row["board"].split(",")[0] for row in asked.records()] == ["no answer", "fake"]
    assert repr(asked) == "<SerialPorts: 2 serial ports, 1 boards that answer>"
    assert len(asked.to_dict()["ports"][1]["board"]["model_hash"]) == 16


@pytest.mark.slow
def test_a_virtual_board_is_trained_within_a_block(tmp_path: Path) -> None:
    made = tmp_path / "virtual"
    mcutrain.generate(MODEL, made, "head", board="nucleo-f446re")
    built = mcutrain.build(made, compiler="zig")
    assert built.memory is not None
    assert built.memory.agrees
    assert built.records()[0]["name"] == "arena"
    few = {"samples": 4, "test_samples": 0, "epochs": 1, "learning_rate": 0.03}
    with mcutrain.virtual_board(made, link="tcp", flash=tmp_path / "flash") as running:
        assert running.is_running
        assert f"nucleo-f446re at {running.port}, running" in repr(running)
        trained = mcutrain.train_board(made, IMAGES, port=running.port, **few)
    assert not running.is_running
    simulated = mcutrain.simulate(MODEL, IMAGES, "head", **{**few, "test_samples": 1})
    assert trained.to_dict()["state_sha256"] == simulated.to_dict()["state_sha256"]
    with mcutrain.virtual_board(made, flash=tmp_path / "flash") as running:
        assert mcutrain.pull(made, tmp_path / "s.mcts", port=running.port).position == 4


def test_latents_are_data_for_the_tail(tmp_path: Path, run: Run) -> None:
    mcutrain.generate(MODEL, tmp_path / "tail", "last:2", part="tail")
    few = {"samples": 6, "test_samples": 4}
    found = mcutrain.latents(tmp_path / "tail", MODEL, IMAGES, **few)
    assert (found.path, found.latent, found.split.train.x.dtype) == (None, "block7/add", np.int8)
    flags = ("--samples", 6, "--test-samples", 4, "-o", "l.npz", "--json")
    printed = run("latents", tmp_path / "tail", MODEL, "--data", IMAGES, *flags).json
    expected = {"file": "l.npz", "bytes": (tmp_path / "l.npz").stat().st_size}
    assert printed == {**found.to_dict(), **expected}
    with np.load(tmp_path / "l.npz") as file:
        np.testing.assert_array_equal(file["x_train"], found.split.train.x)
    with pytest.raises(ArgumentError, match="must end with"):
        mcutrain.latents(tmp_path / "tail", MODEL, IMAGES, "latents.csv")
    with pytest.raises(DataError, match="no labels"):
        mcutrain.latents(tmp_path / "tail", MODEL, HATS)


@pytest.mark.slow
def test_proxies_are_made_of_samples_without_labels(tmp_path: Path) -> None:
    with np.load(IMAGES) as file:
        x = file["x_train"][:40]
    options = {"levels": 2, "distillation": 0}
    made = mcutrain.make_proxies(MODEL, x, tmp_path / "l", "fashion-sparse", **options)
    again = mcutrain.make_proxies(
        MODEL, (x, np.arange(40) % 10), tmp_path / "again", "fashion-sparse", **options
    )
    assert isinstance(made, mcutrain.MadeLadder)
    assert (len(made.records()), made.facts().keys()) == (2, again.facts().keys())
    step = mcutrain.prepare(MODEL, "fashion-sparse", proxies=tmp_path / "l")
    assert step.plan.training.levels.count == 2
    with pytest.raises(McutrainError, match="2 to 16"):
        mcutrain.make_proxies(MODEL, x, tmp_path / "l", levels=1)
