"""Gate: samples from which a step learns nothing new take a forward pass only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain_host.manifest import GateWords
from mcutrain_host.state import GATE_MEAN, GATE_SKIPPED

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features.feature import Code, PlannedMemory, PlanRow, StepFeature, Told, Words
from mcutrain.features.gate.facts import GateFacts
from mcutrain.features.gate.option import GateOption, rewriting
from mcutrain.features.gate.reference import GateState

__all__ = ["FEATURE", "GateFacts", "GateOption"]


def _is_on(training: TrainGraph) -> bool:
    return training.gate is not None


def _one(training: TrainGraph) -> int:
    return int(_is_on(training))


def _code(code: Code) -> Mapping[str, Any] | None:
    """Return which samples are skipped, and where the gate's words lie in the state."""
    training = code.training
    assert training.gate is not None, "it is on"
    return {
        "alpha": f"{training.gate.alpha:.6g}",
        "alpha_q16": training.gate.alpha_q16,
        "place": code.words(GATE_MEAN, "mct_gate"),
        "loss_exponent": code.expression(training.graph, training.loss_exponent),
    }


def _manifest(code: Code, _: Told) -> Mapping[str, Any]:
    gate = code.training.gate
    assert gate is not None, "it is on"
    return {"gate": GateWords(alpha=gate.alpha, offset=code.words_offset(GATE_MEAN))}


def _alpha(plan: PlannedMemory) -> float | None:
    return None if plan.training.gate is None else plan.training.gate.alpha


def _plan_line(alpha: float) -> str:
    return f"learns from a sample if its loss > {alpha:g} · mean of late ones"


FEATURE = StepFeature(
    name="gate",
    is_on=_is_on,
    rewriting=rewriting,
    over=("accumulate",),
    words=(
        Words(GATE_MEAN, "int32", _one, "mean loss that the gate compares with, times 2^19"),
        Words(GATE_SKIPPED, "uint32", _one, "samples that the gate kept from being learnt"),
    ),
    identity=lambda training: repr(training.gate),
    code=_code,
    manifest=_manifest,
    plan_row=PlanRow("gate", _alpha, _plan_line),
    flags={
        "--gate": lambda options: (
            "no --gate" if options.gate is None else f"--gate {options.gate:g}"
        )
    },
    decide=GateState.gated,
    sources=lambda training: ("runtime/mct_gate.h",),
    conflicts={
        "batches": (
            "samples of one level in each update have to be known before it, and --gate leaves out "
            "some while it trains: leave it out, or --batches level"
        ),
    },
)
