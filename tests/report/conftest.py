"""A report with every part, a browser, and the command line."""

import functools
from dataclasses import replace

import pytest

from mcutrain import demo
from mcutrain.autodiff import Levels
from mcutrain.memplan import plan_with_ladder
from mcutrain.pipeline import prepare
from mcutrain.report.collect import collect, fronts_of
from mcutrain.report.content import FrontMap, Report
from mcutrain.report.learning import (
    Analysis,
    Chosen,
    ChosenLayer,
    Compared,
    ElasticChoice,
    ElasticChoices,
    GainTable,
    LearningCurve,
    More,
    NodeTime,
    Point,
    Profile,
    SweepPoint,
    TensorTime,
)
from mcutrain.target import load_target
from tests.cli.conftest import images, model, run
from tests.proxies import ladders

__all__ = ["images", "model", "run"]


@functools.lru_cache(maxsize=1)
def full_report() -> Report:
    """Every section, for the demo's network."""
    step = prepare(demo.MODEL, "fashion-sparse")
    found = collect(step, load_target("nucleo-f446re"))
    layers = tuple(n.name for n in found.network if n.layer is not None and not n.is_head)
    return replace(
        found,
        analysis=analysis(layers),
        selection=selection(layers),
        sweep=tuple(
            SweepPoint(k << 14, (k << 14) - 80, "accuracy", 0.7 + k / 100, (0.7 + k / 110,))
            for k in range(3, 12)
        ),
        curves=(
            LearningCurve(
                "head", (Point(0, 0.1), Point(1, 0.6, 0.5, 1.2), Point(2, 0.7, 0.65, 0.9))
            ),
            LearningCurve("on board", (Point(0, 0.1), Point(300, 0.62)), unit="sample"),
        ),
        comparison=(
            Compared("head only", "head", (0.72, 0.73), 30_000, 25_000, 1_300, 90_000, 131_072),
            Compared("full", "full", (0.86, 0.87), 270_000, 90_000, 150_000, 170_000, 131_072),
        ),
        commands=("mcutrain demo --quick",),
        choices=choices(layers),
        profile=profile(layers),
        fronts=fronts(),
    )


def fronts() -> tuple[FrontMap, ...]:
    """Of a ladder of two levels, the second of which keeps some channels."""
    step = ladders.step()
    whole, _ = ladders.front_of(step)
    given = replace(step.plan.training, levels=Levels(2, ""))
    return fronts_of(plan_with_ladder(given, ladders.ladder(whole, (0.5,))))


def choices(layers: tuple[str, ...]) -> ElasticChoices:
    """Of each layer, alone and with the one before; one choice without importances."""
    tensors = tuple(f"{layer}/weight" for layer in reversed(layers))
    shares = {name: 2.0 ** -(1 + i) for i, name in enumerate(tensors)}
    made = tuple(ElasticChoice(200 + 4000 * k, tensors[k : k + 2], shares) for k in range(5))
    return ElasticChoices(tensors, (*made, ElasticChoice(20_200, tensors[:4])))


def profile(layers: tuple[str, ...]) -> Profile:
    nodes = tuple(NodeTime(n, "mct_conv_2d_s8", 100 * i, 130 * i) for i, n in enumerate(layers, 1))
    tensors = tuple(TensorTime(f"{n}/weight", 40 * i, 90 * i) for i, n in enumerate(layers, 1))
    return Profile("cycles", nodes, tensors, 900, 400, 300, "nucleo-f446re", None, 0.07)


def analysis(layers: tuple[str, ...]) -> Analysis:
    gain = GainTable(
        tuple(0.01 * k for k in range(len(layers) + 1)),
        {str(i): {"0.25": 0.01, "1.0": 0.02 - 0.002 * i} for i in range(len(layers))},
    )
    return Analysis("training", layers, {"accuracy": gain, "loss": gain})


def selection(layers: tuple[str, ...]) -> Chosen:
    return Chosen(
        measure="accuracy",
        head=0.72,
        gain=0.1,
        bound=0.1,
        optimal=True,
        bias_depth=4,
        bias_gain=0.06,
        layers=(ChosenLayer(22, layers[22], 0.5, 0.04, 9000),),
        sram_bytes=100_000,
        flash_bytes=120_000,
        instructions=14_000_000,
        binding="SRAM at step 53, block8/expand/dx2",
        limits={"sram_bytes": 131_072, "flash_bytes": None},
        free={"sram_bytes": 31_072},
        next=More(3_000, 0.004, ("layer 22 at 1 instead of 1/2",)),
    )


@pytest.fixture(scope="session")
def report() -> Report:
    return full_report()
