"""SRAM of a training step on every board: plan, linked ELF, and what a virtual board measures.

    .venv/bin/python benchmarks/device_memory.py --model mcunet-5fps.int8.tflite --classes 10

Without --model the demo's network. Every scheme that fits a board is built for it; with --run one
training step is made on the virtual board, and the stack's high-water mark is measured. With
--steps N so many are made, of noise, and the state is compared with the simulation's; it ends with
exit code 1 if a state or the linked memory differs.

    .venv/bin/python benchmarks/device_memory.py --model mbv2-w0.35.int8.tflite --classes 10 \
        --schemes mbv2-w0.35-49kb --boards nucleo-f446re nucleo-f401re --slots off --steps 100

With --part tail the board's program is only what lies behind the latent and is sent latents; its
state is compared with that of the whole network's simulation. M instr: of the last step; seconds:
that they take by what board.toml says of the chip's cycles, which is an assumption.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import BuildError
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Rate
from mcutrain_host.saved import HEADER_BYTES
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import demo, prepare
from mcutrain.errors import PlanError
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import Target, board_names, target_of
from mcutrain.trained import step_of

DEMO_SCHEMES = ("head", "fashion-sparse", "last:6", "full")
MCUNET_SCHEMES = tuple(f"mcunet-5fps-{kb}kb" for kb in (49, 74, 100, 124, 148))
RATE = LearningRate.of(0.01)
SEED = 1  # what the firmware starts from
PATIENCE = Patience(answer_seconds=60.0, work_seconds=600.0)  # with a computer that is busy
ROW = "{:20}{:18}{:>9}{:>9}{:>8}{:>10}{:>10}{:>8}{:>10}{:>10}{:>9}{:>9}  {}"
COLUMNS = (
    "scheme",
    "board",
    "arena",
    "state",
    "stack",
    "planned",
    "linked",
    "used",  # the stack's high-water mark
    "SRAM",  # data + bss + that
    "flash",
    "M instr",
    "seconds",
    "state after N steps",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--schemes", nargs="+")
    parser.add_argument("--boards", nargs="+")
    parser.add_argument("--compiler")
    parser.add_argument("--run", action="store_true", help="measure the stack on the virtual board")
    parser.add_argument("--steps", type=int, default=0, help="compare the state after so many")
    parser.add_argument("--slots", choices=("on", "off"), default="on")
    parser.add_argument("--part", choices=("whole", "tail"), default="whole")
    options = parser.parse_args()
    is_mcunet = "mcunet-5fps" in options.model.name
    schemes = options.schemes or (MCUNET_SCHEMES if is_mcunet else DEMO_SCHEMES)
    targets = [target_of(name, options.slots) for name in options.boards or _chips()]
    graph = load(options.model)
    print(ROW.format(*COLUMNS))
    is_right = True
    for scheme in schemes:
        step = prepare(graph, scheme, classes=options.classes, part=options.part)
        for target in targets:
            row, agrees = _row(step, target, options)
            print(row, flush=True)
            is_right &= agrees
    sys.exit(not is_right)


def _chips() -> list[str]:
    targets = [target_of(name) for name in board_names()]
    return [t.name for t in targets if t.has_firmware and not t.is_hosted]


@dataclass(frozen=True)
class Run:
    """What the virtual board measured and computed."""

    stack_used_bytes: int
    instructions: int
    state: bytes


def _row(step: TrainingStep, target: Target, options: argparse.Namespace) -> tuple[str, bool]:
    """A line, and whether nothing in it contradicts the plan and the simulation."""
    plan = step.plan
    try:
        project = step.firmware(target)
    except PlanError:
        needs = target.sram_bytes(plan.arena_bytes, plan.state_bytes)
        missing = f"{needs - target.ram.size_bytes:,} bytes too many"
        sizes = f"{plan.arena_bytes:>9,}{plan.state_bytes:>9,}"
        return f"{step.scheme.name:20}{target.name:18}{sizes}  {missing}", True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        project.write(folder)
        try:
            build(folder, options.compiler)
        except BuildError as error:
            return f"{step.scheme.name:20}{target.name:18} {error}", True
        memory = linked_memory(folder)
        steps = options.steps or int(options.run)
        runs_here = bool(steps) and bool(target.emulation.unicorn)  # not a Cortex-M55
        run = _run(folder, step, steps) if runs_here else None
    used = None if run is None else run.stack_used_bytes
    total = "" if used is None else f"{memory.linked_bytes - target.stack_bytes + used:,}"
    is_same = run is None or not options.steps or run.state == _simulated(step, steps)
    seconds = None if run is None else target.step_seconds(run.instructions)
    says = f"{steps}: {'equals' if is_same else 'DIFFERS FROM'} the simulation's"
    row = ROW.format(
        step.scheme.name,
        target.name,
        f"{plan.arena_bytes:,}",
        f"{plan.state_bytes:,}",
        f"{target.stack_bytes:,}",
        f"{memory.planned_bytes:,}",
        f"{memory.linked_bytes:,}",
        "" if used is None else f"{used:,}",
        total,
        f"{memory.flash_bytes:,}",
        "" if run is None else f"{run.instructions / 1e6:.2f}",
        "" if seconds is None else f"{seconds:.3f}",
        says if options.steps else "",
    )
    return row, is_same and memory.agrees


def _whole(step: TrainingStep) -> TrainingStep:
    """The step of the whole network."""
    return step_of(step.graph, replace(step.recipe, latent=""))


def _samples(step: TrainingStep, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, and labels in turn."""
    shape = step.graph.tensors[step.graph.inputs[0]].type.shape[1:]
    draw = np.random.default_rng(0)
    samples = draw.integers(-128, 128, (count, *shape)).astype(np.int8)
    return samples, np.arange(count) % step.plan.training.classes


def _sent(step: TrainingStep, samples: np.ndarray) -> np.ndarray:
    """What the board gets of samples."""
    if step.recipe.options.part == "whole":
        return samples
    whole = _whole(step)
    return whole.latent_simulator(find_latent(whole.plan, step.recipe.options.latent)).front(
        samples
    )


def _run(folder: Path, step: TrainingStep, steps: int) -> Run:
    """An inference, so many training steps, and a save where the board can."""
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), PATIENCE)
    identity = device.identify()
    samples, y = _samples(step, steps)
    x = _sent(step, samples)
    device.send_sample(x[0].tobytes())
    device.infer()
    device.reset(SEED)
    for i in range(steps):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, Rate(RATE.mult_q31, RATE.shift))
    if identity.has_slots:
        device.save()
    found = device.statistics()
    return Run(found.stack_used_bytes, found.train_cycles, device.read_state()[HEADER_BYTES:])


def _simulated(step: TrainingStep, steps: int) -> bytes:
    """The state that the whole network's simulation holds after the same lessons."""
    x, y = _samples(step, steps)
    simulator = (_whole(step) if step.recipe.options.part == "tail" else step).simulator(SEED)
    simulator.train(x, y, [RATE] * steps)
    return simulator.save()[HEADER_BYTES:]


if __name__ == "__main__":
    main()

FLASH = "flash"
