"""The problems of minimalloc's paper: the arena that greedy placement and the search need.

    .venv/bin/python benchmarks/packing.py --shared ../shared

Capacity 1,048,576 bytes. The first search stops there, the second (with --smallest) at the lower
bound. Seconds are of CPU time.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mcutrain.memplan import Buffer, MemoryPlan, read_csv, solve, validate

CAPACITY_BYTES = 1_048_576


def main() -> None:
    """Print one table; the validator raises if a plan is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--smallest", action="store_true", help="search down to the lower bound")
    arguments = parser.parse_args()
    enough_bytes = 0 if arguments.smallest else CAPACITY_BYTES
    columns = ("problem", "buffers", "lower bound", "greedy", "search", "nodes", "seconds", "")
    table = Table(*columns)
    for path in sorted(Path(arguments.shared, "memplan").glob(f"*.{CAPACITY_BYTES}.csv")):
        buffers = read_csv(path.read_text(encoding="utf-8"))
        greedy = solve(buffers, search_nodes=0)
        begin = time.process_time()
        plan = solve(buffers, enough_bytes=enough_bytes)
        seconds = time.process_time() - begin
        validate(plan)
        table.add_row(path.name.split(".")[0], *_row(buffers, greedy, plan, seconds))
    Console(width=120).print(table)


def _row(
    buffers: tuple[Buffer, ...], greedy: MemoryPlan, plan: MemoryPlan, seconds: float
) -> list[str]:
    sizes = (len(buffers), plan.lower_bound_bytes, greedy.arena_bytes, plan.arena_bytes)
    proven = "smallest" if plan.is_smallest else f"not below {plan.needed_bytes:,}"
    return [*(f"{n:,}" for n in (*sizes, plan.search_nodes)), f"{seconds:.1f}", proven]


if __name__ == "__main__":
    main()
