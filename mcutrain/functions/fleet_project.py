"""The Flower project of a fleet: run by `flwr run`, its gateways by `flower-supernode`."""

from __future__ import annotations

import json
from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import PathLike, checked
from mcutrain.errors import ArgumentError
from mcutrain.functions.averaging import Fleet
from mcutrain.functions.files import writing
from mcutrain.shown import Record, Shown

PYPROJECT = """\
# A fleet of boards as a Flower app. Numbers of [tool.flwr.app.config] can be changed for a run:
#     flwr run . --run-config "rounds=20 lr=0.01"

[project]
name = "fleet"
version = "1.0.0"
description = "Boards that learn one model together"
license = "Apache-2.0"
dependencies = ["mcutrain[fleet]"]

[tool.flwr.app]
publisher = "fleet"

[tool.flwr.app.components]
serverapp = "fleet.server:app"
clientapp = "fleet.gateway:app"

[tool.flwr.app.config]
model = {model}
base = {base}
output = {output}         # gets the base of each round, round-N.mcts
gateway = ""              # a gateway.toml for gateways whose node-config names none
rounds = 3
gateways = 1              # that must be there before a round begins
fraction = 1.0            # of the gateways that a round asks
deadline = 3600.0         # seconds after which a round goes on without late gateways
epochs = 1
lr = 0.02
decay = 1.0               # of lr with each round
momentum = 0.0            # the share of a round's move that the next one goes on with
rounding = "stochastic"   # or "nearest"
trim = 0                  # how many boards may lie or diverge
late = 0                  # rounds that a gateway may be late; with each, it counts half as much
canary = 0.0              # of the gateways, whose boards test a new base before it is kept
tolerance = 0.0           # of accuracy that they may lose by it
masked = false            # hide from the server what each gateway learnt
clip = 0                  # the norm of a board's difference at most, in last bits; 0: any
noise = 0.0               # of the sum of boards, its deviation in such norms
noise-seed = ""           # without one, noise is drawn and forgotten
"""
SERVER = '''\
"""The server of the fleet: samples gateways, adds what their boards learnt."""

from mcutrain.functions.flower import server_app

app = server_app()
'''
GATEWAY = '''\
"""A gateway of the fleet: the boards of its gateway.toml learn from their own data."""

from mcutrain.functions.flower import gateway_app

app = gateway_app()
'''
EXAMPLE = """\
# The boards of one gateway. Paths are seen from this folder. Start it by
#     flower-supernode --insecure --superlink HOST:8000 \\
#         --node-config 'gateway="{file}"'

model = {model}
reconnect = 60.0            # seconds that a round waits for a board that was unplugged

[[boards]]
name = "board1"             # unlike that of any other board of the fleet
data = "board1-data"        # what it learns from, as `mcutrain train --data` takes it
# project = "board1"        # of `mcutrain generate --board`; without one, this computer computes
# port = "/dev/ttyACM0"     # what the board would. port: without, the only board that answers
# start = "mcutrain board . --link tcp"  # of a board that is a program: runs it for its turn
"""


@dataclass(frozen=True, repr=False)
class FleetProject(Shown):
    """A Flower project that was written. folder: its own. files: all of it."""

    folder: Path
    files: tuple[str, ...]

    def summary(self) -> str:
        """Return a line that describes it."""
        return f"{self.folder}: a Flower app, {len(self.files)} files"

    def to_dict(self) -> Record:
        """Return it as `mcutrain fleet --json` prints it."""
        return {"folder": str(self.folder), "files": list(self.files)}


def _toml(path: Path) -> str:
    """Return a path as a text of TOML. Raises ArgumentError where UTF-8 cannot say it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"{str(path)!a} is no UTF-8, which a pyproject.toml is: give another name"
        ) from error
    return json.dumps(str(path), ensure_ascii=False)


@checked
def fleet(model: PathLike, base: PathLike, output: PathLike) -> FleetProject:
    """Write a Flower app whose gateways train boards, and whose server adds what they learnt.

    model: the file that all boards train. base: the state of the first round (see `average`).
    output: a new folder. Running it needs the extra mcutrain[fleet], which is Flower.

    Raises ArgumentError where the folder has files already; StateError, ModelError.

    >>> fleet("model.tflite", "base.mcts", "fleet")
    """
    folder, where = Path(output), Path(model).resolve()
    Fleet.of(where, Path(base))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArgumentError(f"{folder} is there already: give a new folder")
    said = {
        "model": _toml(where),
        "base": _toml(Path(base).resolve()),
        "output": _toml(folder.resolve() / "rounds"),
        "file": folder.resolve() / "gateway.toml",
    }
    files = {
        "pyproject.toml": PYPROJECT.format(**said),
        "gateway.toml": EXAMPLE.format(**said),
        "fleet/__init__.py": '"""A fleet of boards."""\n',
        "fleet/server.py": SERVER,
        "fleet/gateway.py": GATEWAY,
    }
    for name, text in files.items():
        path = folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return FleetProject(folder, tuple(files))
