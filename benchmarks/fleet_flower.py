"""A fleet of real firmware under Flower: processes, virtual chips, kills; one SHA-256.

    python benchmarks/fleet_flower.py                                  # ten virtual boards
    python benchmarks/fleet_flower.py --native 1000 --killed 0.2 --gateways 1 3 --shared ../shared

Boards are programs: firmware for this computer, with its slots in a file, and virtual chips. A
gateway starts each for its turn. Each board has images of two classes (non-IID). In each round a
share of them is killed in the middle of a lesson, at a drawn byte. For each number of gateways
Flower's simulation runs the same fleet with the boards in another order. The base of each round
must be the same bytes, and those of a numpy line over boards that are simulated here. Without
--shared, boards train the demo's network; with it, a new head of MLPerf's resnet8 on CIFAR-10.
It needs Flower with its simulation: `make .venv-flower/.test`.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

CPUS = "client-resources-num-cpus=1 init-args-num-cpus=3"
"""Ray runs three gateways at a time, whatever processors there are."""


def board_program(arguments: list[str]) -> None:
    """Be a board: its firmware, or a relay to it that kills it at a drawn byte of a lesson.

    arguments: how often it is killed, the bytes of a lesson, its name, a seed, and the command.
    """
    share, lesson_bytes, name, seed, *command = arguments
    turns = Path(f"{name}.turns")
    turn = len(turns.read_bytes()) + 1 if turns.exists() else 1
    turns.write_bytes(bytes(turn))
    byte = byte_of_death(float(share), int(lesson_bytes), Path(name).name, turn, seed)
    if byte is None:
        os.execvp(command[0], command)
    firmware = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert firmware.stdout is not None
    host, _, port = firmware.stdout.readline().split("//")[1].strip().partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"port socket://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    ours, _ = listener.accept()
    theirs = socket.create_connection((host, int(port)))

    def back() -> None:
        while data := theirs.recv(65536):
            ours.sendall(data)

    threading.Thread(target=back, daemon=True).start()
    while byte > 0 and (data := ours.recv(65536)):
        theirs.sendall(data[:byte])
        byte -= len(data)
    if byte <= 0:  # a board with few samples ends its lesson before
        with Path(f"{name}.killed").open("ab") as file:
            file.write(bytes([turn]))
    firmware.kill()
    os._exit(0)


def byte_of_death(share: float, lesson_bytes: int, name: str, turn: int, seed: str) -> int | None:
    """At which byte of its lesson in a turn a board is killed; None if it lives."""
    drawn = random.Random(f"{seed}:{name}:{turn}")
    return drawn.randrange(1, lesson_bytes) if drawn.random() < share else None


@dataclass(frozen=True)
class Task:
    """What a fleet learns. parts: which training samples each board has."""

    model: Path
    scheme: str
    classes: int | None
    chip: str
    split: Any
    names: tuple[str, ...]
    parts: dict[str, Any]

    @staticmethod
    def of(shared: Path | None, boards: list[str], images: int, chip: str) -> Task:
        """Two shards of sorted labels for each board."""
        import numpy as np

        from mcutrain import data, demo

        count = images * len(boards)
        if shared is None:
            split = demo.deployed(demo.upright(demo.Size(train=max(count, 200), test=500)))
            model, scheme, classes = demo.MODEL, "fashion-sparse", None
        else:
            split = data.load(shared / "data/cifar10_10k2k.npz")
            model, scheme, classes = shared / "models/pretrainedResnet_quant.tflite", "head", 10
        y, drawn = np.asarray(split.train.y[:]), np.random.default_rng(0)
        order = drawn.permutation(len(y))[:count]
        shards = np.array_split(order[np.argsort(y[order], kind="stable")], 2 * len(boards))
        mixed = drawn.permutation(2 * len(boards)).reshape(-1, 2)
        parts = {
            name: drawn.permutation(np.concatenate([shards[a], shards[b]]))
            for name, (a, b) in zip(boards, mixed, strict=True)
        }
        names = tuple(map(str, split.train.names or range(10)))
        return Task(model, scheme, classes, chip, split, names, parts)


class Fleet:
    """A folder with all that the runs have in common."""

    def __init__(self, folder: Path, task: Task, asked: argparse.Namespace) -> None:
        import numpy as np

        import mcutrain

        self.folder, self.task, self.asked = folder, task, asked
        x, y = task.split.train.x, np.asarray(task.split.train.y[:])
        how = {"classes": task.classes} if task.classes else {}
        self.base = folder / "base.mcts"
        (folder / "data").mkdir()
        for name, index in task.parts.items():
            self._write(folder / f"data/{name}.npz", x[np.sort(index)], y[np.sort(index)])
        self._write(folder / "few.npz", x[:100], y[:100])
        mcutrain.simulate(
            task.model, folder / "few.npz", task.scheme, epochs=0, learning_rate=asked.lr,
            class_names=task.names, save_state=self.base, **how,
        )  # fmt: skip
        kinds = {"native": "native"} if asked.native else {}
        if asked.chips:
            kinds["chip"] = task.chip
        for kind, board in kinds.items():
            mcutrain.generate(task.model, folder / kind, task.scheme, board=board, **how)
            mcutrain.build(folder / kind)

    def _write(self, path: Path, x: Any, y: Any) -> None:
        import numpy as np

        names = np.array(self.task.names)
        np.savez(path, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1], names=names)

    def lesson_bytes(self, step: Any) -> int:
        """Of a board's samples, so most boards get more in a round."""
        return int(self.asked.images * math.prod(step.input_type.shape))

    def run(self, number: int, gateways: int, boards: list[str], lesson_bytes: int) -> list[bytes]:
        """Run the fleet by Flower's simulation. Returns the base of each round."""
        from mcutrain_host.saved import SavedState

        import mcutrain

        folder = self.folder / f"run{number}"
        (folder / "boards").mkdir(parents=True)
        mcutrain.fleet(self.task.model, self.base, folder / "app")
        for i in range(gateways):
            head = [f'model = "{self.task.model.resolve()}"', "reconnect = 0.0"]
            head.append(f"class_names = {list(self.task.names)}")
            tables = [self._table(folder, name, lesson_bytes) for name in boards[i::gateways]]
            (folder / f"gateway{i}.toml").write_text("\n".join(head + tables))
        rounds = f"rounds={self.asked.rounds} lr={self.asked.lr} gateways={gateways}"
        rounds += " rounding='nearest' deadline=1000000.0"
        flwr(folder, gateways, f'gateway="{folder}/gateway{{partition-id}}.toml" {rounds}')
        files = [folder / f"app/rounds/round-{n + 1}.mcts" for n in range(self.asked.rounds)]
        return [SavedState.parse(path.read_bytes(), path.name).raw for path in files]

    def _table(self, folder: Path, name: str, lesson_bytes: int) -> str:
        kind = "native" if name.startswith("native") else "chip"
        slots = folder / "boards" / name
        if kind == "native":
            command = ["build/firmware", "--port", "tcp:0", "--state", slots, "--threads", "1"]
        else:
            command = [sys.executable, "-m", "mcutrain.cli", "board", "."]
            command += ["--link", "tcp", "--flash", slots]
        start = [sys.executable, "-I", "-S", Path(__file__).resolve(), "--be-a-board"]
        start += [self.asked.killed, lesson_bytes, slots, self.asked.seed, *command]
        text = shlex.join(map(str, start))
        project, data = self.folder / kind, self.folder / f"data/{name}.npz"
        return (
            f'[[boards]]\nname = "{name}"\ndata = "{data}"\nproject = "{project}"\nstart = "{text}"'
        )


def flwr(folder: Path, gateways: int, config: str) -> None:
    """Run an app by Flower's simulation, and write what it says. Raises SystemExit."""
    binaries = Path(sys.executable).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "home").mkdir()
    here = f'[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (folder / "home/config.toml").write_text(here)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "FLWR_HOME": str(folder / "home"), "PATH": path}
    settings |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    server = [binaries / "flower-superlink", "--insecure", "--simulation", "--port", str(port)]
    server.append("--disable-runtime-dependency-installation")
    said = {"env": settings, "stderr": subprocess.STDOUT}
    with (
        (folder / "superlink.log").open("w") as log,
        subprocess.Popen(server, stdout=log, **said) as link,  # type: ignore[call-overload]
        (folder / "run.log").open("w") as told,
    ):
        try:
            for _ in range(600):
                with socket.socket() as line:
                    if line.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            command = [binaries / "flwr", "run", folder / "app", "here", "--stream"]
            command += ["--federation-config", f"num-supernodes={gateways} {CPUS}"]
            command += ["--run-config", config]
            subprocess.run(command, stdout=told, check=True, **said)  # type: ignore[call-overload]
        finally:
            link.terminate()


def expected(fleet: Fleet, layout: Any, base: bytes, number: int) -> Any:
    """The next base by numpy, of boards that are simulated here; and how many boards lived.

    Who was killed is what the boards of the first run say.
    """
    import numpy as np

    from mcutrain import data
    from mcutrain.runs.sample_reading import model_input, prepare_samples
    from mcutrain.simulation import RunSettings
    from mcutrain.simulation.rates import LearningRate

    asked, simulator = fleet.asked, layout.step.simulator(0)
    begin = layout.saved(base, "the base")
    numbers, weight, lived = layout.read(begin), 0, 0
    sums = {name: np.zeros(size, np.int64) for name, size in layout.sizes.items()}
    for name in fleet.task.parts:
        killed = fleet.folder / f"run1/boards/{name}.killed"
        if killed.exists() and number in killed.read_bytes():
            continue
        split = data.load(
            fleet.folder / f"data/{name}.npz",
            input_shape=model_input(layout.step.graph).shape,
        )
        samples = prepare_samples(split, RunSettings(), model_input(layout.step.graph))
        index = np.array(data.order(len(split.train.y), 0, number))
        rate = [LearningRate.of(asked.lr)] * len(index)
        simulator.load(begin.raw)
        simulator.train(samples.train(index, 0, number), split.train.y[index], rate)
        state = layout.read(layout.saved(simulator.save(), name))
        sums = {key: sums[key] + len(index) * (state[key] - numbers[key]) for key in sums}
        weight, lived = weight + len(index), lived + 1
    means = {key: (2 * sums[key] + weight) // (2 * weight) for key in sums}
    return {key: numbers[key] + means[key] for key in sums}, lived


def main() -> None:
    """Print a table of rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", type=int, default=0, help="firmware processes")
    parser.add_argument("--chips", type=int, default=10, help="virtual boards")
    parser.add_argument("--chip", default="mps2-an386")
    parser.add_argument("--gateways", type=int, nargs="+", default=[1], help="of each run")
    parser.add_argument("--images", type=int, default=10, help="of each board")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--killed", type=float, default=0.0, help="share of boards, each round")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--work", type=Path, help="a new folder that is kept")
    asked = parser.parse_args()
    boards = [f"native{i:04}" for i in range(asked.native)]
    boards += [f"chip{i:02}" for i in range(asked.chips)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if asked.work is None else asked.work.resolve()
        folder.mkdir(exist_ok=True)
        show(folder, boards, asked)


def show(folder: Path, boards: list[str], asked: argparse.Namespace) -> None:
    """Run, compare, print."""
    import numpy as np
    from mcutrain_host.saved import SavedState

    from mcutrain.functions.averaging import Fleet as Rounds
    from mcutrain.runs.sample_reading import model_input, prepare_samples
    from mcutrain.simulation import RunSettings

    task = Task.of(asked.shared, boards, asked.images, asked.chip)
    fleet = Fleet(folder, task, asked)
    layout = Rounds.of(task.model, fleet.base).layout
    size = fleet.lesson_bytes(layout.step)
    order, found = list(boards), []
    for number, gateways in enumerate(asked.gateways, 1):
        started = time.monotonic()
        found.append(fleet.run(number, gateways, order, size))
        seconds = time.monotonic() - started
        made = [sha256(raw).hexdigest()[:16] for raw in found[-1]]
        print(f"{gateways} gateways: {seconds:,.0f} s, {' '.join(made)}", flush=True)
        order = random.Random(number).sample(order, len(order))
    reads = model_input(layout.step.graph)
    samples = prepare_samples(task.split, RunSettings(), reads)
    simulator, count = layout.step.simulator(0), len(task.split.test.y)
    print("round  boards that lived  accuracy  sha256 of its state")
    base = SavedState.parse(fleet.base.read_bytes(), "the base").raw
    for number in range(1, asked.rounds + 1):
        wanted, lived = expected(fleet, layout, base, number)
        same = {files[number - 1] for files in found}
        assert len(same) == 1, f"round {number}: {len(same)} bases"
        base = same.pop()
        for name, value in layout.read(layout.saved(base, "a base")).items():
            assert np.array_equal(value, wanted[name]), (number, name)
        simulator.load(base)
        logits = simulator.infer(samples.test(0, count)).reshape(count, -1)
        right = float((logits.argmax(axis=1) == task.split.test.y[:]).mean())
        print(f"{number:5}  {lived:17,}  {right:8.1%}  {sha256(base).hexdigest()}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be-a-board"]:
        board_program(sys.argv[2:])
    else:
        main()
