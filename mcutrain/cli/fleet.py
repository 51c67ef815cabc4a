"""mcutrain fleet: a Flower app for boards that learn one model together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mcutrain.cli import shared_flags
from mcutrain.cli.average import Base
from mcutrain.cli.output import show, show_json


def fleet(
    model: shared_flags.Model,
    base: Base,
    output: Annotated[
        Path,
        shared_flags.written("DIR", "A new folder."),
    ],
    json: shared_flags.Json = False,
) -> None:
    """Write a Flower app: gateways train boards, a server adds what they learnt.

    It has a pyproject.toml with all numbers of a run, and a gateway.toml to fill in with a
    gateway's boards. It runs where mcutrain[fleet] is installed, which is Flower; docs/fleets.md
    has the commands.

    Example: `mcutrain fleet model.tflite base.mcts -o fleet`
    """
    from mcutrain.functions.fleet_project import fleet as written

    result = written(model, base, output)
    if json:
        show_json(result.to_dict())
        return
    show(f"Wrote {result.summary()}.")
    show(f"Name this computer's boards in {output / 'gateway.toml'}, then start it:")
    show("    flower-superlink --insecure --disable-runtime-dependency-installation")
    show(
        "    flower-supernode --insecure --superlink 127.0.0.1:8000 "
        f"--node-config 'gateway=\"{(output / 'gateway.toml').resolve()}\"'"
    )
    show(f"    flwr run {output} SUPERLINK --stream")
