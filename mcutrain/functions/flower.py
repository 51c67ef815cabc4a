"""A fleet as a Flower app: gateways are its clients, and averages are exact.

Flower (flower.ai, Apache-2.0) brings messages, sampling of clients, authentication and TLS. What
travels is a base to gateways, and sums of whole numbers back.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import field
from fractions import Fraction
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import with_recipe

from mcutrain.arguments import Within
from mcutrain.errors import ArgumentError, McutrainError, StateError
from mcutrain.fleets import (
    ROUNDINGS,
    Contribution,
    averaged,
    check_round,
    on_time,
    trimmed,
    with_momentum,
)
from mcutrain.fleets.contribution import MOST_WEIGHT
from mcutrain.fleets.masks import MaskedSum, new_key, unmasked
from mcutrain.fleets.privacy import MOST_NORM, epsilon, with_noise
from mcutrain.functions.averaging import Fleet, total_of
from mcutrain.functions.files import replace_file
from mcutrain.functions.gateway import FleetRound, Gateway

LOG = logging.getLogger("flwr")
BASE = "base"
CONTRIBUTION = "contribution"
KEPT = "kept"
"""What a gateway sent last, until it knows that it has come."""
KEY = "key"
"""A gateway's private one for the masks of a round."""
FEWEST_MASKED = 3
"""Of two gateways each would know what the other learnt."""
DELTA = 1e-5
LIMITS = {
    **dict.fromkeys(("rounds", "gateways", "epochs"), Within(1)),
    **dict.fromkeys(("fraction", "canary", "tolerance"), Within(0, 1)),
    **dict.fromkeys(("deadline", "lr", "decay"), Within(0, is_above=True)),
    **dict.fromkeys(("trim", "late"), Within(0)),
    "momentum": Within(0, 0.99),
    "clip": Within(0, MOST_NORM),
    "noise": Within(0, 1000),
}
"""Of a run's numbers. Momentum of 255.5 / 256 or more would never fade."""
MOST_SAID = 1 << 30
"""Of what gateways count."""
MOST_HEARD = 100_000
"""Of the answers of gateways that a server tells them of."""


class ExactFedAvg(FedAvg):  # type: ignore[misc]  # Flower has types, and need not be installed
    """Federated averaging of whole numbers: the same bytes in whatever order gateways answer.

    The base of each round is written into `output` as round-N.mcts, so that any of them can be
    gone back to; a later run goes on with the numbers. With trim, gateways send each board by
    itself. late: how many rounds late what a gateway learnt may come; with each it counts half as
    much. canary: the share of a round's gateways whose boards test its new base first. If they
    classify less of their own test samples than with the base before, in the mean over boards and
    by more than `tolerance`, the base before stays. masked: gateways hide their sums from the
    server. clip: the norm that a board's difference has at most; each board then has the weight 1.
    noise: of the sum, its deviation in such norms. noise_seed: whoever has it can take it away.
    momentum: the share of a round's move that the next one goes on with, from 0 in each run.
    """

    def __init__(
        self,
        model: Path,
        base: Path,
        output: Path,
        *,
        rounding: Any = "stochastic",
        trim: int = 0,
        late: int = 0,
        canary: float = 0.0,
        tolerance: float = 0.0,
        masked: bool = False,
        clip: int = 0,
        noise: float = 0.0,
        noise_seed: str = "",
        momentum: float = 0.0,
        deadline: float = 3600.0,
        **sampling: Any,
    ) -> None:
        super().__init__(fraction_evaluate=0.0, **sampling)
        self.model, self.output = model, output
        self.rounding, self.trim = rounding, trim
        self.late, self.canary, self.tolerance = late, canary, tolerance
        self.masked, self.deadline, self._keys = masked, deadline, list[bytes]()
        self.clip, self.noise, self.noise_seed = clip, Fraction(str(noise)), noise_seed
        self.momentum = momentum
        self._velocity: list[dict[str, Any]] = [{}]  # after each round, of which the last counts
        if momentum and trim:
            raise ArgumentError(
                "momentum needs the mean of all boards, which trim does not give: leave out one "
                "of them"
            )
        if masked and (trim or late):
            raise ArgumentError(
                "masked hides single boards, which trim and late need: leave out masked, or these"
            )
        if noise and (not clip or trim or late):  # what is on time counts twice beside late boards
            raise ArgumentError(
                "noise needs differences of a bounded norm: give clip, and leave out trim and late"
            )
        self.base = base
        output.mkdir(parents=True, exist_ok=True)
        self.done = max(map(_number, output.glob("round-*.mcts")), default=0)
        if self.done and base.resolve() != (output / f"round-{self.done}.mcts").resolve():
            LOG.warning(
                "%s is there from a run before, and this run begins with %s: --run-config \"base='"
                "…/round-%d.mcts'\" goes on with what was learnt",
                *(output / f"round-{self.done}.mcts", base, self.done),
            )
        self._newest: list[str] = []  # SHA-256 of this round's base, of those before, and one more
        self._added: dict[str, set[str]] = {}  # boards, by the base that they began with
        self._heard: list[str] = []  # ROUND:GATEWAY, of which what was learnt has come
        self._tested: dict[int, dict[str, float]] = {}  # of this round's base, by gateway and board
        self._before: Path | None = None  # the base before one that is not yet tested
        self._begin(Fleet.of(model, base))  # or a sentence, before any gateway works

    def arrays(self) -> ArrayRecord:
        """Return what gateways begin a round with."""
        return ArrayRecord({BASE: _array(self.base.read_bytes())})

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As Flower samples clients. They hear whether boards are wanted one by one."""
        config["each-board"] = self.trim > 0
        config["round"] = self.done + server_round
        config["late"] = self.late
        config["heard"] = self._heard
        config["clip"] = self.clip
        config["keys"] = []
        messages: list[Message] = list(
            super().configure_train(server_round, self.arrays(), config, grid)
        )
        if self.masked:
            nodes = self._with_keys([m.metadata.dst_node_id for m in messages], config, grid)
            config["keys"] = self._keys
            record = RecordDict({"arrays": self.arrays(), "config": config})
            messages = list(self._construct_messages(record, nodes, MessageType.TRAIN))
        return messages

    def _with_keys(self, nodes: list[int], config: ConfigRecord, grid: Grid) -> list[int]:
        """Ask gateways for the keys of a round. Returns those that gave one."""
        record = RecordDict({"config": ConfigRecord({"round": config["round"]})})
        asked = self._construct_messages(record, nodes, MessageType.QUERY)
        keys: dict[int, bytes] = {}
        for reply in grid.send_and_receive(messages=asked, timeout=self.deadline):
            try:
                key = reply.content["key"]["public"]
            except (KeyError, ValueError, TypeError) as error:
                LOG.warning("gateway %d gave no key: %s", reply.metadata.src_node_id, error)
                continue
            if isinstance(key, bytes) and key not in keys.values():
                keys[reply.metadata.src_node_id] = key
        self._keys = sorted(keys.values())
        if len(keys) < FEWEST_MASKED:
            LOG.warning(
                "%d gateways gave keys, and masks need %d: nothing is learnt in this round",
                *(len(keys), FEWEST_MASKED),
            )
            return []
        return sorted(keys)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add what gateways sent, and make the next base. One that sent other bytes is left out."""
        fleet = Fleet.of(self.model, self.base)
        valid, _ = self._check_and_log_replies(replies, is_train=True, validate=False)
        number = self.done + server_round
        sums = _Sums(
            fleet, self._bases, {base: set(boards) for base, boards in self._added.items()}
        )
        heard, self._tested = [], {}
        masks: list[MaskedSum] = []
        right = tested = failed = saves = 0.0
        for reply in valid:
            node = reply.metadata.src_node_id
            try:
                said = _counted(reply)
                accuracies = _accuracies(reply)
                if self.masked:
                    masks.append(_masked_sum(fleet, reply))
                    taken = [True]
                else:
                    taken = [self._took(sums, part, node) for part in _contributions(reply)]
            except (McutrainError, KeyError, TypeError, ValueError) as error:
                LOG.warning("gateway %d is left out: %s", node, _why(error))
                continue
            if any(taken):
                heard.append(f"{number}:{node}")
                self._tested[node] = accuracies
                right, tested = right + said[0] * said[1], tested + said[1]
                failed, saves = failed + said[2], max(saves, said[3])
        if masks:
            self._unmask(sums, masks)
        if not sums.totals:
            LOG.warning("no gateway learnt anything in round %d: its base stays", server_round)
            return None, None
        try:
            total = total_of(on_time(list(sums.totals.values()), self._bases))
            if self.trim:
                each = on_time(sums.each, self._bases)
                made = trimmed(fleet.layout, fleet.base, each, self.trim, self.rounding, number)
            else:
                moved = self._moved(total, number)
                made = averaged(fleet.layout, fleet.base, moved, self.rounding, number)
        except McutrainError as error:
            LOG.warning("round %d changes nothing, its base stays: %s", server_round, error)
            return None, None
        self._before, self.base = self.base, self.output / f"round-{number}.mcts"
        replace_file(self.base, with_recipe(made, fleet.recipe.to_json()))
        self._added = sums.added
        self._heard = [*heard, *self._heard][: MOST_HEARD if self.late else 0]
        self._begin(Fleet.of(self.model, self.base))
        told: dict[str, int | float] = {
            "boards": len(total.boards),
            "failed": int(failed),
            "samples": total.weight,
            "saves": int(saves),  # that a board's flash has borne at most
        }
        if tested:
            told["accuracy-before"] = right / tested
        return self.arrays(), MetricRecord(told)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Have some of the gateways that have tested a round's base test what became of it."""
        able = sorted(node for node, boards in self._tested.items() if boards)
        if not self.canary or self._before is None or not able:
            return []
        count = max(1, round(self.canary * len(able)))
        chosen = random.Random(self.done + server_round).sample(able, min(count, len(able)))
        config["round"] = self.done + server_round
        record = RecordDict({"arrays": self.arrays(), "config": config})
        messages: Iterable[Message] = self._construct_messages(record, chosen, MessageType.EVALUATE)
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Go back to the base before where boards classify less with the new one."""
        before, self._before = self._before, None
        pairs = []
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error() or before is None:
                continue
            was = self._tested.get(node, {})
            try:
                pairs += [(was[name], now) for name, now in _accuracies(reply).items()]
            except (McutrainError, KeyError, TypeError, ValueError) as error:
                LOG.warning("gateway %d is left out: it tested other boards (%s)", node, error)
        if not pairs or before is None:
            return None
        was, now = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        if now < was - self.tolerance:
            refused = self.base.with_name(f"{self.base.stem}.refused.mcts")
            who = "1 board classifies" if len(pairs) == 1 else f"{len(pairs):,} boards classify"
            LOG.warning(
                "%s %.1f %% of the test samples with the base of round %d, and %.1f %% with the "
                "one before, which stays; the other is kept as %s",
                *(who, 100 * now, self.done + server_round, 100 * was, refused),
            )
            self.base.replace(refused)
            self.base = before
            self._newest, self._velocity = self._newest[1:], self._velocity[:1]
            self._added[self._newest[0]] = set()
        return MetricRecord({"boards": len(pairs), "accuracy": now, "accuracy-before": was})

    def _begin(self, fleet: Fleet) -> None:
        """Begin a round with a base."""
        self._newest = [sha256(fleet.base.raw).hexdigest(), *self._newest][: self.late + 2]
        self._added = {base: self._added.get(base, set()) for base in self._newest}

    @property
    def _bases(self) -> list[str]:
        """With which what comes may have begun, newest first."""
        return self._newest[: self.late + 1]

    def _unmask(self, sums: _Sums, masks: list[MaskedSum]) -> None:
        """Add the sum of all gateways, if all are there."""
        try:
            if list(masks[0].head.keys) != [key.hex() for key in self._keys]:
                raise StateError("masked sums are of other gateways than were asked")
            sums.take(unmasked(sums.fleet.layout, masks), keeps_each=False)
        except McutrainError as error:
            LOG.warning("the masked round ends: %s", error)

    def _moved(self, total: Contribution, number: int) -> Contribution:
        """Add noise and what is left of the rounds before."""
        if self.noise:
            text = f"{self.noise_seed}:{number}".encode()
            seed = text if self.noise_seed else secrets.token_bytes(32)
            total = with_noise(total, self.noise * self.clip, seed)
        if self.momentum:
            total, new = with_momentum(total, self._velocity[-1], self.momentum)
            self._velocity = [self._velocity[-1], new]
        return total

    def _took(self, sums: _Sums, part: Contribution, node: int) -> bool:
        """Return whether what a gateway sent is added; else it is said why not."""
        try:
            sums.take(part, keeps_each=self.trim > 0)
        except McutrainError as error:
            LOG.warning("what gateway %d sent is left out: %s", node, error)
            return False
        return True


@dataclass
class _Sums:
    """What came in a round: a sum for each base that boards began with, whatever their number.

    bases: SHA-256 of this round's and of those before that it takes. added: boards, by base.
    each: what came, if it is kept.
    """

    fleet: Fleet
    bases: list[str]
    added: dict[str, set[str]]
    totals: dict[str, Contribution] = field(default_factory=dict)
    each: list[Contribution] = field(default_factory=list)

    def take(self, part: Contribution, *, keeps_each: bool) -> None:
        """Raise StateError for what is of another fleet, too late, too heavy or there already."""
        (checked,) = on_time([part], self.bases)
        check_round(self.fleet.layout, self.fleet.base, checked)
        if part.without:
            raise StateError(f"{part.boards[0]!r} has another scheme, and this fleet has one")
        if keeps_each and len(part.boards) > 1:
            raise StateError(
                f"{part.boards[0]!r} and others come as one sum, but trim needs each board by "
                "itself"
            )
        twice = sorted(self.added[part.base] & set(part.boards))
        if twice:
            raise StateError(
                f"what {twice[0]!r} learnt from the base {part.base[:12]}… was added already"
            )
        weight = part.weight + sum(total.weight for total in self.totals.values())
        if weight << (len(self.bases) - 1) > MOST_WEIGHT:
            raise StateError(f"with {part.boards[0]!r}, the weights of all boards are too large")
        known = self.totals.get(part.base)
        self.totals[part.base] = part if known is None else known + part
        self.added[part.base].update(part.boards)
        if keeps_each:
            self.each.append(part)


def check_run(config: Mapping[str, Any]) -> None:
    """Raise ArgumentError for numbers of a run that are outside their limits."""
    if config["rounding"] not in ROUNDINGS:
        raise ArgumentError(f"rounding is {config['rounding']!r}: say {' or '.join(ROUNDINGS)}")
    for name, limit in LIMITS.items():
        limit.check(name, float(config[name]))


def server_app() -> ServerApp:
    """Return the ServerApp. Its run-config is that of the pyproject.toml that `fleet` writes."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        check_run(config)
        strategy = ExactFedAvg(
            Path(str(config["model"])),
            Path(str(config["base"])),
            Path(str(config["output"])),
            rounding=str(config["rounding"]),
            trim=int(config["trim"]),
            late=int(config["late"]),
            canary=float(config["canary"]),
            tolerance=float(config["tolerance"]),
            masked=bool(config["masked"]),
            clip=int(config["clip"]),
            noise=float(config["noise"]),
            noise_seed=str(config["noise-seed"]),
            momentum=float(config["momentum"]),
            deadline=float(config["deadline"]),
            fraction_train=float(config["fraction"]),
            min_train_nodes=int(config["gateways"]),
            min_available_nodes=int(config["gateways"]),
        )
        if strategy.noise:
            LOG.info("%s", _told_privacy(float(strategy.noise), int(config["rounds"])))
        strategy.start(
            grid=grid,
            initial_arrays=strategy.arrays(),
            num_rounds=int(config["rounds"]),
            timeout=float(config["deadline"]),
            train_config=ConfigRecord({name: config[name] for name in ("epochs", "lr", "decay")}),
        )
        LOG.info("the fleet's state: %s", strategy.base)

    return app


def gateway_app() -> ClientApp:
    """Return the ClientApp of a gateway, whose node-config names its gateway.toml."""
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        config = message.content["config"]
        number, rate = int(config["round"]), float(config["lr"])
        rate *= float(config["decay"]) ** (number - 1)
        lesson = FleetRound(number, int(config["epochs"]), rate)
        learnt = _gateway(context).learn(_base(message), lesson, int(config["clip"]))
        sums = learnt.contributions if config["each-board"] else (learnt.total,)
        keys = [bytes(key) for key in config["keys"]]
        if keys:
            private = _private_key(context, lesson.number)
            masked = MaskedSum.of(learnt.layout, learnt.total, private, keys)
            sent = [masked.to_bytes()]
        else:
            sent = [one.to_bytes() for one in sums]
        unheard = _unheard(context, config, learnt.total.base)
        if int(config["late"]):
            kept = {"round": lesson.number, "base": learnt.total.base, "sent": sent}
            context.state[KEPT] = ConfigRecord(kept)
        arrays = {f"{CONTRIBUTION}{i}": _array(raw) for i, raw in enumerate(sent + unheard)}
        metrics = {
            "accuracy": learnt.accuracy or 0.0,
            "tested": learnt.tested,
            "failed": len(learnt.failed),
            "saves": max(learnt.saves.values(), default=0),
        }
        content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord(metrics)}
        return Message(RecordDict(content | _said(learnt.accuracies)), reply_to=message)

    @app.query()  # type: ignore[untyped-decorator]
    def key(message: Message, context: Context) -> Message:
        private, public = new_key()
        number = int(message.content["config"]["round"])
        context.state[KEY] = ConfigRecord({"round": number, "private": private})
        content = RecordDict({"key": ConfigRecord({"public": public})})
        return Message(content, reply_to=message)

    @app.evaluate()  # type: ignore[untyped-decorator]
    def evaluate(message: Message, context: Context) -> Message:
        number = int(message.content["config"]["round"])
        accuracies = _gateway(context).test(_base(message), number)
        return Message(RecordDict(_said(accuracies)), reply_to=message)

    return app


def _gateway(context: Context) -> Gateway:
    file = str(context.node_config.get("gateway", context.run_config.get("gateway", "")))
    number = context.node_config.get("partition-id")
    if number is not None:  # Flower's simulation numbers its gateways
        file = file.replace("{partition-id}", str(number))
    return Gateway.read(Path(file), LOG.info)


def _base(message: Message) -> bytes:
    raw: bytes = message.content["arrays"][BASE].numpy().tobytes()
    return raw


def _private_key(context: Context, number: int) -> bytes:
    """Return the key of this round, once: two sums with one mask would say their difference."""
    kept = context.state.pop(KEY, None)
    if kept is None or kept["round"] != number:
        raise StateError(f"this gateway has no key for round {number}: it was restarted meanwhile")
    return bytes(kept["private"])


def _masked_sum(fleet: Fleet, reply: Message) -> MaskedSum:
    where = f"what gateway {reply.metadata.src_node_id} sent"
    (array,) = reply.content["arrays"].values()
    return MaskedSum.parse(fleet.layout, array.numpy().tobytes(), where)


def _told_privacy(noise: float, rounds: int) -> str:
    """Return what a run's noise is worth, or why it is not known."""
    try:
        found = epsilon(noise, rounds, DELTA)
    except McutrainError as error:
        return f"differential privacy: {error}"
    return f"differential privacy of a board in {rounds} rounds: ε = {found:.3g} at δ = {DELTA:g}"


def _unheard(context: Context, config: ConfigRecord, base: str) -> list[bytes]:
    """Return what this gateway sent last, if it did not come and may still. base: of this round."""
    kept = context.state.get(KEPT)
    if kept is None or not 0 < int(config["round"]) - int(kept["round"]) <= int(config["late"]):
        return []
    is_heard = f"{kept['round']}:{context.node_id}" in config["heard"]
    return [] if is_heard or kept["base"] == base else list(kept["sent"])


def _said(accuracies: Mapping[str, float]) -> dict[str, Any]:
    """Accuracies of boards, as a message has them."""
    return {
        "boards": ConfigRecord({"names": list(accuracies)}),
        "accuracies": MetricRecord({"values": list(accuracies.values())}),
    }


def _why(error: Exception) -> str:
    """Return why an answer was not taken."""
    if not isinstance(error, KeyError):
        return str(error)
    return (
        f"its answer has no {error}, so its mcutrain is older or newer than the server's, "
        f"{version('mcutrain')}: install the same there"
    )


def _counted(reply: Message) -> list[float]:
    """Accuracy, test samples, failed boards, and the most saves of a board."""
    metrics = reply.content["metrics"]
    said = [float(metrics[name]) for name in ("accuracy", "tested", "failed", "saves")]
    if said[0] > 1 or not all(0 <= value <= MOST_SAID for value in said):
        raise StateError(
            f"what gateway {reply.metadata.src_node_id} says of its boards can not be so"
        )
    return said


def _accuracies(reply: Message) -> dict[str, float]:
    names = reply.content["boards"]["names"]
    values = [float(value) for value in reply.content["accuracies"]["values"]]
    if not all(0 <= value <= 1 for value in values):
        raise StateError(f"what gateway {reply.metadata.src_node_id} sent is no accuracy")
    return dict(zip(map(str, names), values, strict=True))


def _array(raw: bytes) -> Array:
    return Array(np.frombuffer(raw, np.uint8))


def _number(path: Path) -> int:
    """Return that of a round's file; 0 for others."""
    text = path.stem.removeprefix("round-")
    return int(text) if text.isdecimal() and text.isascii() else 0


def _contributions(reply: Message) -> list[Contribution]:
    where = f"what gateway {reply.metadata.src_node_id} sent"
    arrays = reply.content["arrays"]
    found = [Contribution.parse(array.numpy().tobytes(), where) for array in arrays.values()]
    if not found:
        raise StateError(f"{where} is nothing")
    return found
