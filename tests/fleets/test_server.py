"""The server of a fleet: late, replayed and forged answers, tests of a base, and what it keeps."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytest.importorskip("flwr", reason="needs the extra fleet")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from mcutrain_host.saved import SavedState

from mcutrain import demo
from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets import Contribution, averaged, on_time, with_momentum
from mcutrain.fleets.privacy import clipped, with_noise
from mcutrain.functions import flower
from mcutrain.functions.fleet_project import PYPROJECT
from mcutrain.functions.flower import ExactFedAvg, check_run, gateway_app
from mcutrain.functions.gateway import Gateway, Learned
from tests.fleets.fleet import SAMPLES, fleet
from tests.fleets.test_average import total_of

CONFIG = {"epochs": 1, "lr": 0.02, "decay": 1.0}


class Nodes:
    """The gateways of a Flower server."""

    def get_node_ids(self) -> list[int]:
        return [1, 2, 3]


class Server:
    """A strategy, whose gateways answer what a test says."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.rounds, base = folder / "rounds", folder / "base.mcts"
        if not base.exists():
            base.write_bytes(fleet().file(fleet().base))
        self.strategy = ExactFedAvg(
            demo.MODEL, options.pop("base", base), self.rounds, rounding="nearest", **options
        )
        self.number = 0

    def ask(self) -> list[Message]:
        self.number += 1
        config = ConfigRecord(dict(CONFIG))
        self.asked = list(
            self.strategy.configure_train(self.number, ArrayRecord(), config, Nodes())
        )
        return sorted(self.asked, key=lambda message: message.metadata.dst_node_id)

    def answer(self, *sent: list[bytes], accuracy: float = 0.5) -> bool:
        """Gateways send bytes. Whether there is a new base."""
        asked = self.ask()
        replies = [
            reply(asked[i % 3], raws, {f"board{i}": accuracy}) for i, raws in enumerate(sent)
        ]
        return self.strategy.aggregate_train(self.number, replies)[0] is not None

    @property
    def base(self) -> SavedState:
        raw = self.strategy.base.read_bytes()[: len(fleet().base.raw)]
        return fleet().layout.saved(raw, "the server's base")


def reply(message: Message, raws: list[bytes], accuracies: dict[str, float]) -> Message:
    arrays = {f"contribution{i}": Array(np.frombuffer(r, np.uint8)) for i, r in enumerate(raws)}
    metrics = MetricRecord({"accuracy": 0.5, "tested": 4, "failed": 0, "saves": 6})
    content = {"arrays": ArrayRecord(arrays), "metrics": metrics}
    return Message(RecordDict(content | flower._said(accuracies)), reply_to=message)


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_task_id", "_run_id", "_node_id"):  # messages are made in a run alone
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sentences of warnings."""
    found: list[str] = []
    monkeypatch.setattr(flower.LOG, "warning", lambda text, *more: found.append(text % more))
    return found


class Line(Nodes):
    """The gateways of a server, which give keys when they are asked."""

    def __init__(self, gone: tuple[int, ...] = ()) -> None:
        self.gone = gone
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in (1, 2, 3)
        }

    def send_and_receive(self, messages: Any, timeout: float) -> list[Message]:
        asked = [(one.metadata.dst_node_id, one) for one in messages]
        return [gateway_app()(m, self.contexts[n]) for n, m in asked if n not in self.gone]


def sent(board: int, base: SavedState | None = None, weight: int = 0) -> bytes:
    """What a board learnt since a base."""
    ours = fleet()
    begin = ours.base if base is None else base
    weight = weight or SAMPLES[board]
    one = Contribution.of(ours.layout, begin, ours.states[board], f"board{board}", weight)
    return one.to_bytes()


def mean(base: SavedState, *raws: bytes) -> bytes:
    total = total_of([Contribution.parse(raw, "what was sent") for raw in raws])
    return averaged(fleet().layout, base, total)


def test_an_answer_that_comes_twice_counts_once(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path)
    assert server.answer([sent(0)], [sent(1)], [sent(0)], [sent(1)])
    assert server.base.raw == mean(fleet().base, sent(0), sent(1))
    assert len([text for text in warned if "was added already" in text]) == 2


def test_an_answer_of_the_round_before_is_refused(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path)
    assert server.answer([sent(0)], [sent(1)])
    before = server.base
    assert not server.answer([sent(0)], [sent(1)])
    assert server.base.raw == before.raw
    assert "too late, or of another fleet" in warned[0]
    assert server.answer([sent(2, before)], [sent(1)])
    assert server.base.raw == mean(before, sent(2, before))


def forged(raw: bytes, **changes: Any) -> bytes:
    return replace(Contribution.parse(raw, "what was sent"), **changes).to_bytes()


def turned(raw: bytes) -> bytes:
    """Another sum than said, under a right checksum."""
    half = bytearray(raw)
    half[-40] ^= 1
    half[-4:] = zlib.crc32(half[:-4]).to_bytes(4, "little")
    return bytes(half)


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "another model": lambda raw: forged(raw, model_hash=5),
    "too late, or of another fleet": lambda raw: forged(raw, base="ab" * 32),
    "other tensors": lambda raw: forged(raw, sums={"w": np.zeros(3, np.int64)}),
    "are too large": lambda raw: forged(raw, weight=2**30),
    "has another scheme": lambda raw: forged(raw, without={"head/bias": 1}),
    "is damaged": lambda raw: raw[:-9],
    "is no contribution": lambda raw: b"noise",
}


@pytest.mark.parametrize("sentence", FORGED)
def test_what_is_forged_keeps_no_other_out(
    tmp_path: Path, warned: list[str], sentence: str
) -> None:
    server = Server(tmp_path)
    assert server.answer([sent(0)], [FORGED[sentence](sent(1))], [sent(2)])
    assert server.base.raw == mean(fleet().base, sent(0), sent(2))
    assert any(sentence in text for text in warned), warned


@pytest.mark.parametrize(
    ("name", "value"),
    [("failed", math.nan), ("saves", math.inf), ("tested", -1.0), ("accuracy", 1.5)],
)
def test_a_gateway_that_counts_nonsense_is_left_out(
    tmp_path: Path, warned: list[str], name: str, value: float
) -> None:
    server = Server(tmp_path)
    asked = server.ask()
    replies = [reply(asked[i], [sent(i)], {f"board{i}": 0.5}) for i in range(3)]
    replies[1].content["metrics"][name] = value
    assert server.strategy.aggregate_train(server.number, replies)[0] is not None
    assert server.base.raw == mean(fleet().base, sent(0), sent(2))
    assert any("gateway 2 says of its boards can not be so" in text for text in warned), warned


@pytest.mark.parametrize(("record", "name"), [("metrics", "saves"), ("boards", "names")])
def test_a_gateway_of_another_version_is_left_out_and_told_so(
    tmp_path: Path, warned: list[str], record: str, name: str
) -> None:
    server = Server(tmp_path)
    asked = server.ask()
    replies = [reply(asked[i], [sent(i)], {f"board{i}": 0.5}) for i in range(3)]
    del replies[1].content[record][name]
    assert server.strategy.aggregate_train(server.number, replies)[0] is not None
    assert server.base.raw == mean(fleet().base, sent(0), sent(2))
    assert [
        text for text in warned if f"gateway 2 is left out: its answer has no '{name}', " in text
    ]


def test_what_can_not_be_trimmed_stops_no_round(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path, trim=1)
    both = total_of([Contribution.parse(sent(i), "what was sent") for i in (1, 2)])
    summed = replace(both, boards=("x", "y")).to_bytes()
    assert server.answer([sent(0)], [sent(1)], [sent(2)], [summed])
    assert any("'x' and others come as one sum" in text for text in warned), warned


def test_a_turned_bit_under_a_right_checksum_harms_nobody(
    tmp_path: Path, warned: list[str]
) -> None:
    """It is another sum, or none; keys of gateways, which Flower has, are against that."""
    server = Server(tmp_path)
    assert server.answer([sent(0)], [turned(sent(1))])


def test_a_server_that_is_killed_keeps_each_round_whole(
    tmp_path: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path)
    assert server.answer([sent(0)])
    first = server.base

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(flower, "replace_file", killed)
        with pytest.raises(KeyboardInterrupt):
            server.answer([sent(2, first)])
    assert [path.name for path in server.rounds.iterdir()] == ["round-1.mcts"]
    again = Server(tmp_path)
    assert "round-1.mcts is there from a run before" in warned[-1]
    warned.clear()
    again = Server(tmp_path, base=server.rounds / "round-1.mcts")
    assert not warned
    assert again.answer([sent(2, first)])
    assert again.base.raw == mean(first, sent(2, first))
    assert again.strategy.base.name == "round-2.mcts"


def test_a_late_answer_counts_half_and_once(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path, late=1)
    assert server.answer([sent(0)], [sent(1)])
    second = server.base
    parts = [sent(3, second), sent(2), sent(0)]
    assert server.answer(*[[raw] for raw in parts])  # board0 is replayed
    assert "'board0' learnt from the base" in warned[0]
    bases = [Contribution.parse(raw, "").base for raw in parts[:2]]
    late = on_time([Contribution.parse(raw, "") for raw in parts[:2]], bases)
    expected = averaged(fleet().layout, second, total_of(late))
    assert server.base.raw == expected
    assert not server.answer([sent(4)])  # two rounds late
    assert "too late" in warned[-2]
    assert server.base.raw == expected


def test_weights_that_late_answers_double_stay_within_64_bits(
    tmp_path: Path, warned: list[str]
) -> None:
    server = Server(tmp_path, late=1)
    assert server.answer([sent(0)])
    second = server.base
    heavy = sent(3, second, weight=2**29)
    assert server.answer([heavy], [sent(2)])
    assert server.base.raw == mean(second, heavy)
    assert "the weights of all boards are too large" in warned[0]


def test_a_late_answer_of_a_gateway_does_not_spoil_its_new_one(
    tmp_path: Path, warned: list[str]
) -> None:
    server = Server(tmp_path, late=1)
    for number in (1, 2):
        assert server.answer([sent(number, server.base)])
    now = server.base
    assert server.answer([sent(3, now), sent(0)])
    assert server.base.raw == mean(now, sent(3, now))


def evaluated(server: Server, accuracy: dict[str, float]) -> list[int]:
    """Gateways that are asked, of which all answer."""
    asked = server.strategy.configure_evaluate(
        server.number, ArrayRecord(), ConfigRecord({}), Nodes()
    )
    replies = [Message(RecordDict(flower._said(accuracy)), reply_to=one) for one in asked]
    server.strategy.aggregate_evaluate(server.number, replies)
    return [one.metadata.dst_node_id for one in asked]


def test_a_base_with_which_boards_lose_is_taken_back(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path, canary=0.3, tolerance=0.1)
    assert server.answer([sent(0)], accuracy=0.5)
    assert evaluated(server, {"board0": 0.45}) == [1]  # within the tolerance
    first = server.base
    assert server.answer([sent(2, first)], accuracy=0.5)
    assert evaluated(server, {"board0": 0.39}) == [1]
    assert "1 board classifies 39.0 % of the test samples with the base of round 2" in warned[-1]
    assert server.base.raw == first.raw
    names = sorted(path.name for path in server.rounds.iterdir())
    assert names == ["round-1.mcts", "round-2.refused.mcts"]
    begin = server.ask()[0].content["arrays"]["base"].numpy().tobytes()
    assert begin[: len(first.raw)] == first.raw
    server.number -= 1
    assert server.answer([sent(2, first)])  # which has not been added, then
    assert server.base.raw == mean(first, sent(2, first))


def test_a_share_of_gateways_tests_a_base(tmp_path: Path, warned: list[str]) -> None:
    for canary, asked in ((0.0, 0), (0.01, 1), (0.6, 2), (1.0, 3)):
        server = Server(tmp_path, canary=canary)
        server.strategy.done = 0
        assert server.answer([sent(0)], [sent(1)], [sent(2)])
        assert len(evaluated(server, {})) == asked
        assert evaluated(server, {}) == []  # once


def test_boards_that_were_not_asked_say_nothing_of_a_base(
    tmp_path: Path, warned: list[str]
) -> None:
    server = Server(tmp_path, canary=1.0)
    assert server.answer([sent(0)], [sent(1)])
    new = server.base
    evaluated(server, {"another": 0.0})
    assert "tested other boards" in warned[-1]
    assert server.base.raw == new.raw


def test_a_gateway_sends_again_what_was_not_heard(
    tmp_path: Path,
) -> None:
    split = demo.deployed(demo.upright(demo.Size(train=8, test=4)))
    arrays = {"x_train": split.train.x[:4], "y_train": split.train.y[:4]}
    tested = {"x_test": split.test.x[:4], "y_test": split.test.y[:4]}
    np.savez(tmp_path / "data.npz", **arrays, **tested, names=np.array(split.train.names))
    text = f'model = "{demo.MODEL.as_posix()}"\n[[boards]]\nname = "a"\ndata = "data.npz"\n'
    (tmp_path / "gateway.toml").write_text(text)
    node = {"gateway": str(tmp_path / "gateway.toml")}
    context = Context(run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config={})
    server, sizes, app = Server(tmp_path, late=1), [], gateway_app()
    for _ in range(3):
        mine, other, _ = server.ask()
        answer = app(mine, context)
        raws = [array.numpy().tobytes() for array in answer.content["arrays"].values()]
        sizes.append([Contribution.parse(raw, "").base[:6] for raw in raws])
        if server.number == 1:  # does not come, while another gateway's does
            server.strategy.aggregate_train(1, [reply(other, [sent(0)], {})])
        else:
            new, told = server.strategy.aggregate_train(server.number, [answer])
            assert new is not None
            assert told["boards"] == (2 if server.number == 2 else 1)
            newest = new["base"].numpy().tobytes()
    assert list(map(len, sizes)) == [1, 2, 1]
    config = ConfigRecord({"round": 4})
    asked = Message(
        RecordDict({"arrays": ArrayRecord({"base": flower._array(newest)}), "config": config}),
        dst_node_id=1,
        message_type="evaluate",
    )
    found = flower._accuracies(app(asked, context))
    assert found == Gateway.read(tmp_path / "gateway.toml").test(newest, 4)
    assert list(found) == ["a"]


def masked_round(
    server: Server, line: Line, monkeypatch: pytest.MonkeyPatch, left_out: int = 0
) -> bool:
    """Three gateways, a board each, as gateways answer. Whether there is a new base."""
    server.number += 1
    config = ConfigRecord({**CONFIG, "each-board": False})
    asked = server.strategy.configure_train(server.number, ArrayRecord(), config, line)
    replies = []
    for message in asked:
        node = message.metadata.dst_node_id
        part = Contribution.parse(sent(node - 1), "a sum")

        class Stand:
            def learn(self, base: bytes, lesson: object, clip: int, one: Any = part) -> Learned:
                return Learned(fleet().layout, (one,), {}, 0.5, 4, {})

        monkeypatch.setattr(flower, "_gateway", lambda context, stand=Stand: stand())
        answer = gateway_app()(message, line.contexts[node])
        (array,) = answer.content["arrays"].values()
        assert part.to_bytes() not in array.numpy().tobytes()
        if node != left_out:
            replies.append(answer)
    return server.strategy.aggregate_train(server.number, replies)[0] is not None


def test_masked_sums_make_the_base_of_plain_ones(
    tmp_path: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path, masked=True)
    assert masked_round(server, Line(), monkeypatch)
    assert server.base.raw == mean(fleet().base, sent(0), sent(1), sent(2))
    assert not warned


def test_a_gateway_that_drops_out_ends_a_masked_round(
    tmp_path: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path, masked=True)
    assert not masked_round(server, Line(), monkeypatch, left_out=2)
    assert "the masked round ends: 1 of 3 gateways with masks are missing" in warned[0]
    assert server.base.raw == fleet().base.raw
    assert not masked_round(server, Line(gone=(2,)), monkeypatch)  # before it gave a key
    assert "2 gateways gave keys, and masks need 3" in " ".join(warned)
    assert masked_round(server, Line(), monkeypatch)


def test_a_key_serves_one_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of two rounds with one mask the difference would be known."""
    line = Line()
    context = line.contexts[1]
    context.state["key"] = ConfigRecord({"round": 3, "private": b"x" * 32})
    with pytest.raises(StateError, match="no key for round 4"):
        flower._private_key(context, 4)
    context.state["key"] = ConfigRecord({"round": 4, "private": b"x" * 32})
    assert flower._private_key(context, 4) == b"x" * 32
    with pytest.raises(StateError, match="no key for round 4"):
        flower._private_key(context, 4)


def test_noise_is_added_to_the_sum(tmp_path: Path, warned: list[str]) -> None:
    server = Server(tmp_path, clip=1000, noise=0.05, noise_seed="a")
    parts = [
        clipped(Contribution.parse(sent(board), "a sum"), 1000, 0).to_bytes() for board in (0, 1)
    ]
    assert server.answer(*[[raw] for raw in parts])
    total = total_of([Contribution.parse(raw, "a sum") for raw in parts])
    noisy = with_noise(total, Fraction(50), b"a:1")
    assert server.base.raw == averaged(fleet().layout, fleet().base, noisy)
    drawn = [
        Server(folder, clip=1000, noise=0.05)
        for folder in (tmp_path / "b", tmp_path / "c")
        if not folder.mkdir()  # type: ignore[func-returns-value]
    ]
    assert all(one.answer(*[[raw] for raw in parts]) for one in drawn)
    assert drawn[0].base.raw != drawn[1].base.raw


def test_a_base_that_is_taken_back_leaves_no_momentum(tmp_path: Path, warned: list[str]) -> None:
    server, ours = Server(tmp_path, momentum=0.5, canary=1.0), fleet()
    velocity: dict[str, Any] = {}
    for number, is_kept in ((0, True), (2, False), (3, True)):
        before = server.base
        part = Contribution.parse(sent(number, before), "a sum")
        moved, new = with_momentum(part, velocity, 0.5)
        assert server.answer([part.to_bytes()], accuracy=0.5)
        assert server.base.raw == averaged(ours.layout, before, moved)
        evaluated(server, {"board0": 0.5 if is_kept else 0.4})
        if is_kept:
            velocity = new
        else:
            assert server.base.raw == before.raw


def test_a_rate_decays_with_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, rates, line = Server(tmp_path), [], Line()

    class Stand:
        def learn(self, base: bytes, lesson: Any, clip: int) -> Learned:
            rates.append(lesson.learning_rate)
            one = Contribution.parse(sent(0), "a sum")
            return Learned(fleet().layout, (one,), {}, 0.5, 4, {})

    monkeypatch.setattr(flower, "_gateway", lambda context: Stand())
    for _ in range(3):
        message = server.ask()[0]
        message.content["config"]["decay"] = 0.5
        gateway_app()(message, line.contexts[1])
    assert rates == [0.02, 0.01, 0.005]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"masked": True, "trim": 1}, "masked hides"),
        ({"masked": True, "late": 1}, "masked hides"),
        ({"momentum": 0.5, "trim": 1}, "which trim does not give"),
        ({"noise": 1.0}, "give clip"),
        ({"noise": 1.0, "clip": 9, "late": 1}, "leave out trim and late"),
        ({"noise": 1.0, "clip": 5, "trim": 1}, "leave out trim"),
    ],
)
def test_numbers_that_do_not_go_together_get_a_sentence(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        Server(tmp_path, **options)


def test_a_run_says_what_its_noise_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    said = flower._told_privacy(1.0, 10)
    assert "ε = " in said or "mcutrain[privacy]" in said
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert "pip install 'mcutrain[privacy]'" in flower._told_privacy(1.0, 10)


def test_numbers_of_a_run_have_limits() -> None:
    text = PYPROJECT.format(model='""', base='""', output='""')
    config = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
    check_run(config)
    assert set(flower.LIMITS) < set(config)
    for name, wrong in (
        *(("momentum", 1.0), ("noise", -1.0), ("canary", 2.0), ("late", -1), ("lr", math.nan)),
        *(("decay", 0.0), ("rounds", 0), ("rounding", "up"), ("clip", -1), ("trim", -1)),
    ):
        with pytest.raises(ArgumentError, match=f"^{name} is "):
            check_run({**config, name: wrong})
