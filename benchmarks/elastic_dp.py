"""How good the choice of what to train is, beside ElasticTrainer's own, and what it takes.

    .venv/bin/python benchmarks/elastic_dp.py

Random chains of tensors: update times and backward times are drawn log-uniformly over a factor of
50, importances over a factor of 100, budgets uniformly between 10 and 90 % of the backward pass.
The best selection is computed exactly, in the times themselves. Then executed instructions of the C
on emulated cores, counted exactly; they do not depend on this machine, milliseconds of numpy do.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM, UC_HOOK_CODE, UC_MODE_THUMB, Uc
from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_ARM_REG_R3,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M7,
)

from mcutrain.sparse.elastic import ElasticProblem, choose
from mcutrain.target import FIRMWARE

SIZES = (8, 20, 40, 84)
TIME_SPREAD, IMPORTANCE_SPREAD = 50, 100
LEAST_TIME = 20
UNITS_PUBLISHED = 1000
"""T_q of the paper."""
CORES = {"cortex-m0plus": UC_CPU_ARM_CORTEX_M0, "cortex-m7": UC_CPU_ARM_CORTEX_M7}
CODE, RAM, RAM_BYTES = 0x10000, 0x20000000, 0x40000
COUNTED = 20
UNTOUCHED = 0xA5


@dataclass(frozen=True)
class Chain:
    """Tensor k is trained by its update and the backward nodes 0 … k."""

    update_times: tuple[int, ...]
    node_times: tuple[int, ...]
    importance: tuple[int, ...]
    budget: int

    @property
    def problem(self) -> ElasticProblem:
        needs = [frozenset(range(k + 1)) for k in range(len(self.update_times))]
        return ElasticProblem.of(needs, self.node_times, self.update_times, ())

    def time(self, chosen: Sequence[int]) -> int:
        deepest = max(chosen, default=-1)
        return sum(self.node_times[: deepest + 1]) + sum(self.update_times[k] for k in chosen)

    def value(self, chosen: Sequence[int]) -> int:
        return sum(self.importance[k] for k in chosen)

    def best(self) -> int:
        """The most importance within the budget, by a knapsack over the times themselves."""
        g = np.zeros(self.budget + 1, np.int64)
        found = 0
        depths = accumulate(self.node_times)
        for t, i, depth in zip(self.update_times, self.importance, depths, strict=True):
            if depth > self.budget:
                break
            if t <= self.budget:
                g[t:] = np.maximum(g[t:], g[: self.budget + 1 - t] + i)
            found = max(found, int(g[self.budget - depth]))
        return found


def published(chain: Chain, units: int | None = UNITS_PUBLISHED) -> list[int]:
    """ElasticTrainer's recursion over L[k][t], k the last tensor that may be selected.

    Either k is not selected, and L[k - 1][t] holds; or it is, and the selection before it is that
    of the last selected tensor p in whose own subproblem p is selected: max over p of
    L[p][t - t_dw[k] - Σ t_dy[p + 1 … k]] + I[k]. A subproblem where not selecting k is better does
    not remember what selecting it gives, although the gradient would then have come that far.

    units: times are floored to the T_q-th part of the backward pass, and the budget in them is
    lowered by what that loses of their sum; None takes times as they are.
    """
    update, node, limit = quantized(chain, units)
    count = len(update)
    best = np.zeros((count + 1, limit + 1), np.int64)
    is_selected = np.zeros((count + 1, limit + 1), bool)
    is_selected[0] = True
    before = np.zeros((count + 1, limit + 1), np.int64)
    reach = [0, *accumulate(node)]
    for k in range(1, count + 1):
        best[k] = best[k - 1]
        for p in range(k - 1, -1, -1):
            t = update[k - 1] + reach[k] - reach[p]
            if t > limit:
                continue
            candidate = best[p, : limit + 1 - t] + chain.importance[k - 1]
            gains = is_selected[p, : limit + 1 - t] & (candidate > best[k, t:])
            best[k, t:][gains] = candidate[gains]
            is_selected[k, t:] |= gains
            before[k, t:][gains] = p
    return traced(best, is_selected, before, update, reach)


def traced(best, is_selected, before, update, reach) -> list[int]:
    """The selection of the first best subproblem."""
    k, t = (int(i) for i in np.unravel_index(np.argmax(best), best.shape))
    found = []
    while k > 0:
        if not is_selected[k, t]:
            k -= 1
            continue
        found.append(k - 1)
        p = int(before[k, t])
        t -= update[k - 1] + reach[k] - reach[p]
        k = p
    return found


def quantized(chain: Chain, units: int | None) -> tuple[list[int], list[int], int]:
    """Update times, backward times and budget as the recursion sees them."""
    if units is None:
        return list(chain.update_times), list(chain.node_times), chain.budget
    whole = sum(chain.update_times) + sum(chain.node_times)
    update = [t * units // whole for t in chain.update_times]
    node = [t * units // whole for t in chain.node_times]
    known = sum(update) + sum(node)
    return update, node, chain.budget * known * known // (whole * units)


def drawn(random: np.random.Generator, count: int, most_units: int | None) -> Chain:
    """most_units: times are whole numbers from 1 to that; None draws finer ones."""
    if most_units is None:
        times = LEAST_TIME * np.exp(random.uniform(0, np.log(TIME_SPREAD), 2 * count))
    else:
        times = random.integers(1, most_units + 1, 2 * count)
    t = [int(v) for v in times]
    importance = 1000 * np.exp(random.uniform(0, np.log(IMPORTANCE_SPREAD), count))
    budget = int(sum(t) * random.uniform(0.1, 0.9))
    return Chain(tuple(t[:count]), tuple(t[count:]), tuple(int(v) for v in importance), budget)


def compare(title: str, solvers: dict[str, Callable[[Chain], Sequence[int]]], options) -> None:
    """A row for each size and solver."""
    print(f"\n{title}: {options.chains} chains of each size")
    print("tensors  solver                over budget  not best  mean loss  worst loss        ms")
    for count in options.sizes:
        random = np.random.default_rng(count)
        chains = [drawn(random, count, options.most_units) for _ in range(options.chains)]
        best = [chain.best() for chain in chains]
        for name, solve in solvers.items():
            begun = time.perf_counter()
            answers = [solve(chain) for chain in chains]
            ms = 1000 * (time.perf_counter() - begun) / len(chains)
            triples = list(zip(chains, answers, best, strict=True))
            fits = [chain.time(a) <= chain.budget for chain, a, _ in triples]
            kept = [
                1 - chain.value(a) / b if b else 0.0
                for (chain, a, b), fit in zip(triples, fits, strict=True)
                if fit
            ]
            over, worse = 1 - np.mean(fits), np.mean([loss > 0 for loss in kept])
            print(
                f"{count:7}  {name:20} {over:11.1%} {worse:9.1%} {np.mean(kept):10.2%} "
                f"{max(kept):11.2%} {ms:9.1f}"
            )


def main() -> None:
    """Print a table for drawn times, one for small whole ones, and the C's instructions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    ours = {"ours, 256 units": lambda c: choose(c.problem, c.importance, c.budget)}
    options.most_units = 5
    exact = {"published, no floor": lambda c: published(c, None)}
    compare("Times of 1 to 5", {**exact, **ours}, options)
    options.most_units = None
    compare("Times of 20 to 1,000", {"published, T_q 1000": published, **ours}, options)
    print("\nExecuted instructions of mct_elastic_choose, gcc -O3: mean (least, most)")
    for count in options.sizes:
        for core in CORES:
            print(f"{count:7}  {core:14} {instructions(core, count)}")


# ------------------------------------------------------------------------------------- instructions


def instructions(core: str, count: int) -> str:
    """Count instructions for drawn chains, and check their answers."""
    random = np.random.default_rng(count)
    with tempfile.TemporaryDirectory() as scratch:
        program = Program.build(core, Path(scratch))
    found = []
    for _ in range(COUNTED):
        chain = drawn(random, count, None)
        expected = choose(chain.problem, chain.importance, chain.budget)
        chosen, executed, stack = program.choose(chain)
        assert chosen == expected, (chosen, expected)
        found.append(executed)
    mean, least, most = (round(f(found)) for f in (np.mean, min, max))
    size = chain.problem.scratch_bytes
    return f"{mean:,} ({least:,}, {most:,}); scratch {size:,} bytes, stack {stack:,}"


@dataclass(frozen=True)
class Program:
    """mct_elastic.c and the firmware's own memset, for a core."""

    core: str
    code: bytes
    entry: int

    @staticmethod
    def build(core: str, folder: Path) -> Program:
        """By arm-none-eabi-gcc, with the flags of boards."""
        sources = ("runtime/mct_elastic.c", "chips/cortex_m/mct_libc.c")
        includes = [f"-I{FIRMWARE / name}" for name in ("runtime", "chips/cortex_m/include")]
        flags = [
            f"-mcpu={core}",
            "-mthumb",
            "-mfloat-abi=soft",
            "-O3",
            "-std=c11",
            "-ffreestanding",
        ]
        link = ["-nostdlib", f"-Ttext={CODE:#x}", "-Wl,-e,mct_elastic_choose", "-lgcc"]
        elf = folder / "choose.elf"
        files = [str(FIRMWARE / name) for name in sources]
        command = ["arm-none-eabi-gcc", *flags, *includes, *files, *link, "-o", str(elf)]
        subprocess.run(command, check=True)
        with elf.open("rb") as stream:
            read = ELFFile(stream)
            loaded = [s for s in read.iter_segments() if s["p_type"] == "PT_LOAD"]
            code = bytearray(max(s["p_vaddr"] + s["p_memsz"] for s in loaded) - CODE)
            for segment in loaded:
                begin = max(CODE - segment["p_vaddr"], 0)
                place = segment["p_vaddr"] + begin - CODE
                code[place : place + segment["p_filesz"] - begin] = segment.data()[begin:]
            return Program(core, bytes(code), read["e_entry"])

    def choose(self, chain: Chain) -> tuple[tuple[int, ...], int, int]:
        """What it chooses, how many instructions that takes, and bytes of stack."""
        p, memory = chain.problem, Memory()
        count = len(p.update_times)
        rows = b"".join(struct.pack("<IHH", *row) for row in p.reach_rows)
        pointers = (
            memory.put(np.array(p.update_times, np.uint32).tobytes()),
            memory.put(rows),
            memory.put(np.array(p.reach_tensors, np.uint16).tobytes()),
            memory.put(np.array(p.always_words, np.uint32).tobytes()),
        )
        problem = memory.put(struct.pack("<IIIIHH", *pointers, count, len(p.reaches)))
        importance = memory.put(np.array(chain.importance, np.int32).tobytes())
        scratch = memory.put(bytes(p.scratch_bytes))
        selection = memory.put(bytes(4 * len(p.always_words)))
        top = RAM + RAM_BYTES - 8
        engine = Uc(UC_ARCH_ARM, UC_MODE_THUMB, CORES[self.core])
        engine.mem_map(CODE, 0x10000)
        engine.mem_write(CODE, self.code)
        engine.mem_map(RAM, RAM_BYTES)
        engine.mem_write(RAM, bytes([UNTOUCHED]) * RAM_BYTES)
        engine.mem_write(RAM, bytes(memory.content))
        engine.mem_write(top, struct.pack("<I", selection))
        registers = (UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3)
        for register, value in zip(
            registers, (problem, importance, chain.budget, scratch), strict=True
        ):
            engine.reg_write(register, value)
        engine.reg_write(UC_ARM_REG_SP, top)
        finish = CODE + 0xFFF0
        engine.reg_write(UC_ARM_REG_LR, finish | 1)
        executed = [0]

        def count_one(*_: object) -> None:
            executed[0] += 1

        engine.hook_add(UC_HOOK_CODE, count_one)
        engine.emu_start(self.entry | 1, finish)
        assert engine.reg_read(UC_ARM_REG_R0) == 0
        words = struct.unpack(
            f"<{len(p.always_words)}I", engine.mem_read(selection, 4 * len(p.always_words))
        )
        chosen = tuple(k for k in range(count) if words[k // 32] >> k % 32 & 1)
        begin = RAM + len(memory.content)
        stack = bytes(engine.mem_read(begin, top - begin)).lstrip(bytes([UNTOUCHED]))
        return chosen, executed[0], len(stack)


class Memory:
    """What lies in RAM, each piece aligned to 4."""

    def __init__(self) -> None:
        self.content = bytearray()

    def put(self, piece: bytes) -> int:
        address = RAM + len(self.content)
        self.content += piece + bytes(-len(piece) % 4)
        return address


if __name__ == "__main__":
    main()
