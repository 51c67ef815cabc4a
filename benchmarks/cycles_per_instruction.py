"""Cycles per instruction of a training step by Arm's cycle tables, without any wait for memory.

    .venv/bin/python benchmarks/cycles_per_instruction.py

The basis of `cycles_per_instruction` in board.toml. Every executed instruction of a step's code on
the virtual board is weighed as the tables 3-1 of the Cortex-M4 manual (DDI 0439) and the Cortex-M0+
manual (DDI 0484) say: a branch that is taken refills the pipeline (2 cycles more on M4, 1 on the
M0+), neighbouring loads overlap on the M4, a division takes 8 on average. Needs capstone, which
pyocd brings. The M0+ takes ten minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import capstone
import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from unicorn import UC_HOOK_BLOCK

from mcutrain import demo
from mcutrain.target import load_target

SETTLING_STEPS = 2


@dataclass(frozen=True)
class Core:
    """Cycles of what takes more than one. taken: added to a branch that is taken."""

    load: int
    next_load: int
    store: int
    call: int
    indirect: int
    taken: int
    divide: int = 8


CORES = {"cortex-m4": Core(2, 1, 1, 3, 3, 2), "cortex-m0plus": Core(2, 2, 2, 3, 2, 1)}


def main() -> None:
    """Print a row for each board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scheme", default="fashion-sparse", help="of the demo's network")
    parser.add_argument("--boards", nargs="+", default=["nucleo-f446re", "rpi-pico"])
    options = parser.parse_args()
    for board in options.boards:
        cycles, instructions = step_cycles(board, options.scheme)
        rate = cycles / instructions
        print(f"{board:18}{instructions:14,} instructions{rate:6.2f} cycles each")


def step_cycles(board: str, scheme: str) -> tuple[int, int]:
    """Cycles and instructions of one training step."""
    target = load_target(board)
    blocks: Counter[tuple[int, int]] = Counter()
    jumps: Counter[tuple[int, int]] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        demo.training_step(demo.network(), scheme).firmware(target).write(folder)
        build(folder)
        machine = load_machine(folder, LoopbackLink())
    follow(machine, blocks, jumps)
    device = Device(DirectLink(machine))
    random, size = np.random.default_rng(0), device.identify().input_bytes
    for position in range(SETTLING_STEPS + 1):
        blocks.clear()
        jumps.clear()
        device.send_sample(random.integers(-128, 128, size).astype(np.int8).tobytes())
        device.train(position, position, Rate(1 << 30, -4))
    core = CORES[target.core]
    decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
    cycles = instructions = 0
    for (address, length), times in blocks.items():
        code = list(decoder.disasm(machine.read(address, length), address))
        instructions += len(code) * times
        cycles += times * block_cycles(code, core) + jumps[address, length] * core.taken
    return cycles, instructions


def follow(machine, blocks: Counter, jumps: Counter) -> None:
    """Count basic blocks, and how often what comes after one is not the code behind it."""
    last = (0, 0)

    def on_block(_, address: int, length: int, __) -> None:
        nonlocal last
        if sum(last) != address:
            jumps[last] += 1
        last = (address, length)
        blocks[last] += 1

    machine.cpu.engine.hook_add(UC_HOOK_BLOCK, on_block)


def block_cycles(code: list[capstone.CsInsn], core: Core) -> int:
    """Count the cycles of straight-line code. A call or return counts with its jump."""
    cycles, loaded = 0, False
    for instruction in code:
        name, operands = instruction.mnemonic.split(".")[0], instruction.op_str
        is_load = name.startswith("ldr") and name != "ldrd"
        cycles += instruction_cycles(name, operands, core.next_load if loaded else core.load, core)
        loaded = is_load
    return cycles


def instruction_cycles(name: str, operands: str, load: int, core: Core) -> int:
    """By the table. load: of a load here."""
    listed = len(operands.partition("{")[2].split(",")) if "{" in operands else 0
    if name.startswith(("ldm", "stm", "push", "pop")):
        return 1 + listed
    if name in ("ldrd", "strd"):
        return 1 + 2 * (core.store if name == "strd" else 1)
    if name.startswith("ldr"):
        return load
    if name.startswith("str"):
        return core.store
    if name in ("udiv", "sdiv"):
        return core.divide
    if name in ("bl", "bx", "blx"):
        return (core.call if name == "bl" else core.indirect) - core.taken
    return 2 if name in ("mla", "mls") else 1


if __name__ == "__main__":
    main()
