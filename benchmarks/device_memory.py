"""SRAM of a training step on every board: plan, linked ELF, and what a virtual board measures.

    .venv/bin/python benchmarks/device_memory.py --model mcunet-5fps.int8.tflite --classes 10

Without --model the demo's network. Every scheme that fits a board is built for it; with --run one
training step is made on the virtual board, and the stack's high-water mark is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.errors import BuildError
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import demo
from mcutrain.errors import PlanError
from mcutrain.pipeline import load, prepare
from mcutrain.target import board_names, load_target

DEMO_SCHEMES = ("head", "fashion-sparse", "last:6", "full")
MCUNET_SCHEMES = tuple(f"mcunet-5fps-{kb}kb" for kb in (49, 74, 100, 124, 148))
RATE = Rate(1 << 30, -4)
ROW = "{:18}{:20}{:>9}{:>9}{:>8}{:>10}{:>10}{:>8}{:>10}{:>10}"
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
    options = parser.parse_args()
    is_mcunet = "mcunet-5fps" in options.model.name
    schemes = options.schemes or (MCUNET_SCHEMES if is_mcunet else DEMO_SCHEMES)
    targets = [load_target(name) for name in options.boards or board_names()]
    graph = load(options.model)
    print(ROW.format(*COLUMNS))
    for scheme in schemes:
        step = prepare(graph, scheme, classes=options.classes)
        for target in targets:
            if not target.is_hosted:
                print(_row(step, target, options))


def _row(step, target, options) -> str:
    plan = step.plan
    try:
        project = step.firmware(target)
    except PlanError:
        needs = target.sram_bytes(plan.arena_bytes, plan.state_bytes)
        missing = f"{needs - target.ram.size_bytes:,} bytes too many"
        sizes = f"{plan.arena_bytes:>9,}{plan.state_bytes:>9,}"
        return f"{step.scheme.name:18}{target.name:20}{sizes}  {missing}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        project.write(folder)
        try:
            build(folder, options.compiler)
        except BuildError as error:
            return f"{step.scheme.name:18}{target.name:20} {error}"
        memory = linked_memory(folder)
        used = _stack_used(folder) if options.run else None
    total = "" if used is None else f"{memory.linked_bytes - target.stack_bytes + used:,}"
    return ROW.format(
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
    )


def _stack_used(folder: Path) -> int:
    """After an inference, a training step and a save."""
    device = Device(DirectLink(load_machine(folder, LoopbackLink())))
    identity = device.identify()
    sample = np.random.default_rng(0).integers(-128, 128, identity.input_bytes).astype(np.int8)
    device.send_sample(sample.tobytes())
    device.infer()
    device.send_sample(sample.tobytes())
    device.train(0, 0, RATE)
    if identity.has_slots:
        device.save()
    return device.statistics().stack_used_bytes


if __name__ == "__main__":
    main()

FLASH = "flash"
