"""Elastic training: a step updates the trained tensors that the state selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mcutrain_host.manifest import ElasticSelection
from mcutrain_host.state import SELECTED_TENSORS

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features.elastic.option import ElasticOption, rewriting
from mcutrain.features.elastic.reference import ElasticState
from mcutrain.features.elastic.selector import RUN, ElasticSettings
from mcutrain.features.feature import Code, StepFeature, Told, Words
from mcutrain.ir.graph import Node
from mcutrain.sparse.elastic import words

__all__ = ["FEATURE", "ElasticOption", "ElasticSettings"]


def _code(code: Code) -> Mapping[str, Any] | None:
    """The trained tensors by their bits, and where the state says which are trained now."""
    tensors = code.training.elastic

    def bits(which: Iterable[int]) -> list[str]:
        return [f"0x{word:08x}u" for word in words(which, len(tensors))]

    return {
        "names": [tensor.name for tensor in tensors],
        "words": len(words((), len(tensors))),
        "all": bits(range(len(tensors))),
        "always": bits(i for i, tensor in enumerate(tensors) if tensor.is_always_trained),
        "place": code.words(SELECTED_TENSORS, "uint32_t"),
    }


def _condition(training: TrainGraph, node: Node) -> str:
    """Return whether one of the tensors that need a node is selected."""
    tensors = training.served.get(node.name)
    always = {i for i, tensor in enumerate(training.elastic) if tensor.is_always_trained}
    if tensors is None or tensors & always:
        return ""
    masks = enumerate(words(tensors, len(training.elastic)))
    return " || ".join(f"SELECTED({i}, 0x{mask:08x}u)" for i, mask in masks if mask)


def _manifest(code: Code, told: Told) -> Mapping[str, Any]:
    """Return what is selected; and what a step takes, if the program selects by itself."""
    names = tuple(tensor.name for tensor in code.training.elastic)
    found = ElasticSelection(tensors=names, offset=code.words_offset(SELECTED_TENSORS))
    times = told.elastic
    if times is not None:
        found = replace(
            found,
            forward_time=times.forward,
            backward_time=times.problem.backward_time,
            least_time=times.problem.least_time,
        )
    return {"elastic": found}


FEATURE = StepFeature(
    name="elastic",
    is_on=lambda training: bool(training.elastic),
    rewriting=rewriting,
    run=RUN,
    words=(
        Words(
            SELECTED_TENSORS,
            "uint32",
            lambda training: len(words((), len(training.elastic))),
            "a bit for each elastic tensor: whether it is trained now",
        ),
    ),
    identity=lambda training: repr(training.elastic),
    code=_code,
    condition=_condition,
    manifest=_manifest,
    flags={"--elastic": lambda options: "--elastic" if options.elastic else "no --elastic"},
    left_out=ElasticState.left_out,
)
