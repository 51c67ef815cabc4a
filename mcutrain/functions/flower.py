"""A fleet as a Flower app: gateways are its clients, and averages are exact.

Flower (flower.ai, Apache-2.0) brings messages, sampling of clients, authentication and TLS. What
travels is a base to gateways, and sums of whole numbers back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from mcutrain_host.saved import with_recipe

from mcutrain.errors import McutrainError, StateError
from mcutrain.fleets import Contribution, averaged, check_round, trimmed
from mcutrain.functions.averaging import Fleet, total_of
from mcutrain.functions.files import replace_file
from mcutrain.functions.gateway import FleetRound, Gateway

LOG = logging.getLogger("flwr")
BASE = "base"
CONTRIBUTION = "contribution"


class ExactFedAvg(FedAvg):  # type: ignore[misc]  # Flower has types, and need not be installed
    """Federated averaging of whole numbers: the same bytes in whatever order gateways answer.

    The base of each round is written into `output` as round-N.mcts, so that any of them can be
    gone back to; a later run goes on with the numbers. With trim, gateways send each board by
    itself.
    """

    def __init__(
        self,
        model: Path,
        base: Path,
        output: Path,
        *,
        rounding: Any = "stochastic",
        trim: int = 0,
        **sampling: Any,
    ) -> None:
        super().__init__(fraction_evaluate=0.0, **sampling)
        self.model, self.output = model, output
        self.rounding, self.trim = rounding, trim
        self.base = base
        output.mkdir(parents=True, exist_ok=True)
        self.done = max(map(_number, output.glob("round-*.mcts")), default=0)
        Fleet.of(model, base)  # or a sentence, before any gateway works

    def arrays(self) -> ArrayRecord:
        """What gateways begin a round with."""
        return ArrayRecord({BASE: _array(self.base.read_bytes())})

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As Flower samples clients. They hear whether boards are wanted one by one."""
        config["each-board"] = self.trim > 0
        config["round"] = self.done + server_round
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add what gateways sent, and make the next base. One that sent other bytes is left out."""
        fleet = Fleet.of(self.model, self.base)
        valid, _ = self._check_and_log_replies(replies, is_train=True, validate=False)
        total: Contribution | None = None
        each: list[Contribution] = []
        right = tested = failed = 0.0
        for reply in valid:
            try:
                parts = _contributions(reply)
                for part in parts:
                    check_round(fleet.layout, fleet.base, part)
                new = total_of(parts if total is None else [total, *parts])
                metrics = reply.content["metrics"]
                said = [float(metrics[name]) for name in ("accuracy", "tested", "failed")]
            except (McutrainError, KeyError, TypeError, ValueError) as error:
                LOG.warning("gateway %d is left out: %s", reply.metadata.src_node_id, error)
                continue
            total = new
            each += parts if self.trim else []
            right, tested, failed = right + said[0] * said[1], tested + said[1], failed + said[2]
        number = self.done + server_round
        if total is None:
            LOG.warning("no gateway learnt anything in round %d: its base stays", server_round)
            return None, None
        try:
            if self.trim:
                made = trimmed(fleet.layout, fleet.base, each, self.trim, self.rounding, number)
            else:
                made = averaged(fleet.layout, fleet.base, total, self.rounding, number)
        except McutrainError as error:
            LOG.warning("round %d changes nothing, its base stays: %s", server_round, error)
            return None, None
        self.base = self.output / f"round-{number}.mcts"
        replace_file(self.base, with_recipe(made, fleet.recipe.to_json()))
        told: dict[str, int | float] = {
            "boards": len(total.boards),
            "failed": int(failed),
            "samples": total.weight,
        }
        if tested:
            told["accuracy-before"] = right / tested
        return self.arrays(), MetricRecord(told)


def server_app() -> ServerApp:
    """Return the ServerApp. Its run-config is that of the pyproject.toml that `fleet` writes."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        strategy = ExactFedAvg(
            Path(str(config["model"])),
            Path(str(config["base"])),
            Path(str(config["output"])),
            rounding=str(config["rounding"]),
            trim=int(config["trim"]),
            fraction_train=float(config["fraction"]),
            min_train_nodes=int(config["gateways"]),
            min_available_nodes=int(config["gateways"]),
        )
        strategy.start(
            grid=grid,
            initial_arrays=strategy.arrays(),
            num_rounds=int(config["rounds"]),
            timeout=float(config["deadline"]),
            train_config=ConfigRecord({"epochs": config["epochs"], "lr": config["lr"]}),
        )
        LOG.info("the fleet's state: %s", strategy.base)

    return app


def gateway_app() -> ClientApp:
    """Return the ClientApp of a gateway, whose node-config names its gateway.toml."""
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        file = context.node_config.get("gateway", context.run_config.get("gateway", ""))
        gateway = Gateway.read(Path(str(file)), LOG.info)
        config = message.content["config"]
        lesson = FleetRound(int(config["round"]), int(config["epochs"]), float(config["lr"]))
        base = message.content["arrays"][BASE].numpy().tobytes()
        found = gateway.learn(base, lesson)
        sent = found.contributions if config["each-board"] else (found.total,)
        content = RecordDict(
            {
                "arrays": ArrayRecord(
                    {f"{CONTRIBUTION}{i}": _array(one.to_bytes()) for i, one in enumerate(sent)}
                ),
                "metrics": MetricRecord(
                    {
                        "accuracy": found.accuracy or 0.0,
                        "tested": found.tested,
                        "failed": len(found.failed),
                    }
                ),
            }
        )
        return Message(content=content, reply_to=message)

    return app


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
