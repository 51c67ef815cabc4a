"""Planned SRAM of every scheme beside its lower bound, for the three ImageNet networks.

    .venv/bin/python benchmarks/memory.py --shared ../shared

A new 10-class head, batch 1, int8 gradients, the usual bits unless flags say otherwise. whole: the
sum if nothing is computed row by row. Peer: the released code of the "49 KB" scheme of mcunet-5fps
needs 189,800 B for arena and scratch and 47,656 B for what it trains.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mcutrain import pipeline, prepare
from mcutrain.memplan import validate
from mcutrain.sparse.scheme import UpdateScheme, parse_scheme, shipped_schemes

MODELS = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")


def main() -> None:
    """Print one table; the validator raises if a plan is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--residual-bits", type=int, default=UpdateScheme.residual_bits)
    parser.add_argument("--head-residual-bits", type=int, default=UpdateScheme.head_residual_bits)
    parser.add_argument("--bias-bits", type=int, default=UpdateScheme.bias_bits)
    arguments = parser.parse_args()
    columns = ("scheme", "whole", "arena", "lower bound", "trainable state", "sum", "peak at")
    table = Table(*columns)
    for model in MODELS:
        graph = pipeline.load(Path(arguments.shared) / f"models/{model}.int8.tflite")
        own = [s for s in shipped_schemes() if s.startswith(model)]
        for scheme in ["head", *sorted(own, key=lambda s: (len(s), s)), "full"]:
            chosen = replace(
                parse_scheme(scheme),
                residual_bits=arguments.residual_bits,
                head_residual_bits=arguments.head_residual_bits,
                bias_bits=arguments.bias_bits,
            )
            whole, plan = (
                prepare(graph, chosen, classes=arguments.classes, stream=stream).plan
                for stream in ("off", "auto")
            )
            validate(plan.arena)
            sizes = (plan.arena_bytes, plan.arena.lower_bound_bytes, plan.state_bytes)
            texts = [f"{size:,}" for size in (whole.sram_bytes, *sizes, plan.sram_bytes)]
            name = scheme if scheme in own else f"{model} {scheme}"
            table.add_row(name, *texts, plan.nodes[plan.arena.peak_step].name)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
