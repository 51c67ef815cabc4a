"""A gateway's boards: this computer's and a virtual one, those that fail, and its file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.saved import with_recipe

import mcutrain
from mcutrain import demo
from mcutrain.errors import ArgumentError, McutrainError
from mcutrain.fleets import Contribution, averaged, trimmed
from mcutrain.fleets.privacy import clipped
from mcutrain.functions.gateway import LEFT_SECONDS, PREFIX, FleetRound, Gateway
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.fleets.fleet import SCHEME, fleet
from tests.fleets.test_average import total_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BOARD = "mps2-an386"


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """Images of three boards: files in a gateway's folder."""
    split = demo.deployed(demo.upright(demo.Size(train=60, test=8)))
    names = []
    for i in range(3):
        part = slice(20 * i, 20 * i + 12)
        arrays = {"x_train": split.train.x[part], "y_train": split.train.y[part]}
        tested = {"x_test": split.test.x[:8], "y_test": split.test.y[:8]}
        named = {"names": np.array(split.train.names)}  # a board has not seen all of them
        np.savez(tmp_path / f"data{i}.npz", **arrays, **tested, **named)
        names.append(f"data{i}.npz")
    return names


def written(folder: Path, *boards: str) -> Gateway:
    tables = "\n".join(f"[[boards]]\n{board}" for board in boards)
    path = folder / "gateway.toml"
    path.write_text(f'model = "{demo.MODEL.as_posix()}"\n{tables}\n')
    return Gateway.read(path)


def base() -> bytes:
    return fleet().file(fleet().base)


def test_a_round_removes_what_killed_ones_left(
    tmp_path: Path, data: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "base.mcts").touch()
    os.utime(old, (0, time.time() - LEFT_SECONDS - 60))
    assert written(tmp_path, f'name = "a"\ndata = "{data[0]}"').test(base(), 1)
    assert [path.name for path in tmp_path.glob(f"{PREFIX}*")] == [new.name]


@pytest.mark.slow
def test_a_board_of_this_computer_learns_as_numpy_does(tmp_path: Path, data: list[str]) -> None:
    gateway = written(tmp_path, f'name = "a"\ndata = "{data[1]}"')
    found = gateway.learn(base(), FleetRound(3, epochs=2, learning_rate=0.01))
    begin, reference = fleet().base, fleet().step.reference(1)
    reference.load(begin.raw)
    split = mcutrain.data.load(tmp_path / data[1])
    samples = prepare_samples(split, RunSettings(), model_input(demo.network()))
    for epoch in range(2):
        for i in mcutrain.data.order(12, epoch, 3):
            x = samples.train(np.array([i]), epoch, 3)
            reference.train(x, split.train.y[[i]], [LearningRate.of(0.01)])
    state = fleet().layout.saved(reference.save(), "numpy")
    expected = Contribution.of(fleet().layout, begin, state, "a", 24)
    assert found.total.to_bytes() == expected.to_bytes()
    short = gateway.learn(base(), FleetRound(3, epochs=2, learning_rate=0.01), 100)
    exponent = fleet().layout.output_exponent(begin)
    assert short.total.to_bytes() == clipped(expected, 100, exponent).to_bytes()


@pytest.mark.slow
def test_a_chip_of_a_gateway_contributes_what_this_computer_does(
    tmp_path: Path, data: list[str]
) -> None:
    mcutrain.generate(demo.MODEL, tmp_path / "project", SCHEME, board=BOARD)
    mcutrain.build(tmp_path / "project")
    with mcutrain.virtual_board(tmp_path / "project", link="tcp") as board:
        gateway = written(
            tmp_path,
            f'name = "chip"\ndata = "{data[0]}"\nproject = "project"\nport = "{board.port}"',
            f'name = "computer"\ndata = "{data[0]}"',
        )
        begin = base()
        for number in (1, 2):  # the second goes on from a base that has learnt
            chip, computer = gateway.learn(begin, FleetRound(number)).contributions
            assert {n: v.tolist() for n, v in chip.sums.items()} == {
                n: v.tolist() for n, v in computer.sums.items()
            }
            assert (chip.weight, chip.updates) == (computer.weight, computer.updates) == (12, 12)
            ours = fleet()
            now = ours.layout.saved(begin[: len(ours.base.raw)], "the base")
            begin = ours.file(
                ours.layout.saved(averaged(ours.layout, now, chip + computer), "the mean")
            )


def test_a_board_that_cannot_be_reached_keeps_no_other_from_it(
    tmp_path: Path, data: list[str]
) -> None:
    boards = [f'name = "b{i}"\ndata = "{name}"' for i, name in enumerate(data)]
    gone = 'name = "gone"\ndata = "nowhere.npz"'
    found = written(tmp_path, boards[0], gone, *boards[1:]).learn(base(), FleetRound(1))
    assert [one.boards for one in found.contributions] == [("b0",), ("b1",), ("b2",)]
    assert list(found.failed) == ["gone"]
    assert "nowhere.npz" in found.failed["gone"]
    assert found.total.weight == 36
    assert found.accuracy is not None
    with pytest.raises(McutrainError, match=r"no board learnt anything: .*nowhere\.npz"):
        written(tmp_path, gone).learn(base(), FleetRound(1))


def test_classes_are_those_of_their_names(tmp_path: Path, data: list[str]) -> None:
    """A board that has seen two classes in another order learns them, not the first two."""
    graph, arrays = demo.network(), dict(np.load(tmp_path / data[0]))
    own = graph.class_names or tuple(arrays["names"])
    two = [i for i, label in enumerate(arrays["y_train"]) if label in (7, 3)]
    names = np.array([own[7], own[3]])
    y = np.array([0 if arrays["y_train"][i] == 7 else 1 for i in two])
    parts = {"x_train": arrays["x_train"][two], "y_train": y}
    parts |= {"x_test": arrays["x_train"][two], "y_test": y}
    np.savez(tmp_path / "two.npz", **parts, names=names)
    whole = {"y_train": arrays["y_train"][two], "y_test": arrays["y_train"][two]}
    np.savez(tmp_path / "whole.npz", **{**parts, **whole}, names=np.array(own))
    listed = ", ".join(f'"{name}"' for name in own)
    sums = []
    for name in ("two.npz", "whole.npz"):
        board = f'name = "a"\ndata = "{name}"'
        path = tmp_path / "gateway.toml"
        head = f'model = "{demo.MODEL.as_posix()}"\nclass_names = [{listed}]\n'
        path.write_text(f"{head}[[boards]]\n{board}\n")
        found = Gateway.read(path).learn(base(), FleetRound(1))
        assert found.tested == len(two)
        sums.append(found.total.to_bytes())
    assert len(two) > 1
    assert sums[0] == sums[1]


def test_the_accuracy_of_a_gateway_weighs_boards_by_what_they_learnt(
    tmp_path: Path, data: list[str]
) -> None:
    arrays = dict(np.load(tmp_path / data[0]))
    wrong = {"y_test": (arrays["y_test"] + 1) % 10}  # the more of its answers are wrong
    fewer = {"x_train": arrays["x_train"][:3], "y_train": arrays["y_train"][:3]}
    np.savez(tmp_path / "other.npz", **{**arrays, **fewer, **wrong})
    boards = [f'name = "{n}"\ndata = "{file}"' for n, file in (("a", data[0]), ("b", "other.npz"))]
    alone = [written(tmp_path, board).learn(base(), FleetRound(1)).accuracy for board in boards]
    assert alone[0] != alone[1]
    both = written(tmp_path, *boards).learn(base(), FleetRound(1)).accuracy
    assert both == pytest.approx((12 * alone[0] + 3 * alone[1]) / 15)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model = 3", "gateway.toml"),
        ("model = ", "gateway.toml"),
        ('model = "m"\nboards = []', "name of its own"),
        ('model = "m"\n[[boards]]\nname = "a"', "data"),
        ('model = "m"\n[[boards]]\nname = ""\ndata = "d"', "name of its own"),
        ('model = "m"\n[[boards]]\nname = "a"\ndata = "d\\u0000"', "code 0"),
        ('model = "m\\u0000"\n[[boards]]\nname = "a"\ndata = "d"', "code 0"),
        ("a = " + "[" * 5000, "gateway.toml"),
        ('model = "m"\n[[boards]]\nname = "a"\ndata = "d"\nspeed = 3', "speed"),
    ],
)
def test_a_file_that_is_no_gateways_gets_a_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=sentence):
        Gateway.read(path)
    with pytest.raises(ArgumentError, match="none"):
        Gateway.read(tmp_path / "none.toml")


def test_a_flower_app_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "base.mcts").write_bytes(base())
    said = run("fleet", demo.MODEL, "base.mcts", "-o", "app")
    assert said.code == 0, said.err
    made = tomllib.loads((tmp_path / "app/pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert Path(made["config"]["base"]) == (tmp_path / "base.mcts").resolve()
    assert made["components"] == {
        "serverapp": "fleet.server:app",
        "clientapp": "fleet.gateway:app",
    }
    assert Gateway.read(tmp_path / "app/gateway.toml").file.boards[0].name == "board1"
    again = run("fleet", demo.MODEL, "base.mcts", "-o", "app").sentence
    assert "app is there already" in again
    (tmp_path / "noise.mcts").write_bytes(b"noise")
    assert "noise.mcts" in run("fleet", demo.MODEL, "noise.mcts", "-o", "b").sentence
    assert not (tmp_path / "b").exists()
    made_of = json.loads(run("fleet", demo.MODEL, "base.mcts", "-o", "c", "--json").out)
    assert "pyproject.toml" in made_of["files"]


class Nodes:
    """The gateways of a Flower server."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get_node_ids(self) -> list[int]:
        return list(range(1, self.count + 1))


@pytest.mark.parametrize("trim", [0, 1])
def test_flower_averages_exactly(
    tmp_path: Path, data: list[str], trim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gateways, one of which answers rubbish in the second round."""
    pytest.importorskip("flwr", reason="needs the extra fleet")
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from mcutrain.functions.flower import ExactFedAvg, gateway_app

    for name in ("_task_id", "_run_id", "_node_id"):  # messages are made in a run alone
        monkeypatch.setattr(TaskIdentity, name, 1)
    (tmp_path / "base.mcts").write_bytes(base())
    gateways = []
    for i, boards in enumerate(([0, 1], [2])):
        (tmp_path / f"g{i}").mkdir()
        tables = [f'name = "b{k}"\ndata = "../{data[k]}"' for k in boards]
        gateways.append(written(tmp_path / f"g{i}", *tables))
    strategy = ExactFedAvg(demo.MODEL, tmp_path / "base.mcts", tmp_path / "rounds", trim=trim)
    config, before = ConfigRecord({"epochs": 1, "lr": 0.02, "decay": 1.0}), fleet().base
    for number in (1, 2):
        asked = strategy.configure_train(number, strategy.arrays(), config, Nodes(2))
        replies = []
        for message in asked:
            file = gateways[message.metadata.dst_node_id - 1].folder / "gateway.toml"
            context = Context(
                run_id=1,
                node_id=message.metadata.dst_node_id,
                node_config={"gateway": str(file)},
                state=RecordDict(),
                run_config={},
            )
            reply = gateway_app()(message, context)
            if number == 2 and message.metadata.dst_node_id == 2:
                noise = Array(np.frombuffer(b"noise", np.uint8))
                reply.content["arrays"] = ArrayRecord({"contribution0": noise})
            assert isinstance(reply, Message)
            replies.append(reply)
        kept = gateways[: 3 - number]
        begin = with_recipe(before.raw, fleet().step.recipe.to_json())  # type: ignore[union-attr]
        parts = [c for g in kept for c in g.learn(begin, FleetRound(number)).contributions]
        if trim and number == 2:  # two boards of which none can be left out at either end
            assert strategy.aggregate_train(number, replies) == (None, None)
            assert strategy.base == tmp_path / "rounds/round-1.mcts"
            return
        late = Contribution.of(fleet().layout, fleet().states[0], fleet().states[1], "late", 9)
        wrong = gateway_app()(message, context)
        wrong.content["arrays"] = ArrayRecord(
            {"contribution0": Array(np.frombuffer(late.to_bytes(), np.uint8))}
        )
        bare = gateway_app()(message, context)
        del bare.content["metrics"]["accuracy"]
        replies = [wrong, bare, *replies]  # whoever comes first says nothing about the others
        arrays, metrics = strategy.aggregate_train(number, replies[::-1])
        layout = fleet().layout
        made = (
            trimmed(layout, before, parts, trim)
            if trim
            else averaged(layout, before, total_of(parts), "stochastic", number)
        )
        assert (tmp_path / f"rounds/round-{number}.mcts").read_bytes()[: len(made)] == made
        assert arrays["base"].numpy().tobytes()[: len(made)] == made
        assert metrics["boards"] == len(parts)
        before = layout.saved(made, "the mean")
    assert strategy.aggregate_train(3, []) == (None, None)
    again = ExactFedAvg(demo.MODEL, tmp_path / "base.mcts", tmp_path / "rounds")
    assert again.done == 2  # a later run keeps the rounds of this one
