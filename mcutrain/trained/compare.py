"""Which parameters of two models differ, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Tensor, TensorType
from mcutrain.ir.text import type_text
from mcutrain.shown import Record, Shown

Array = npt.NDArray[Any]

SCALE_TOLERANCE = 1e-6
"""Relative; a bias' scale is the product of two rounded numbers, and may be rounded itself."""


@dataclass(frozen=True)
class TensorChange:
    """How a constant of two models differs. differing: of `elements`.

    largest, mean: absolute difference of the stored integers, in units of the scale; mean over all
    elements. largest_real: of the numbers they mean. structure: what else is different, as words;
    with another shape there are no numbers.
    """

    name: str
    elements: int
    differing: int = 0
    largest: int = 0
    mean: float = 0.0
    largest_real: float = 0.0
    structure: str = ""


@dataclass(frozen=True, repr=False)
class Changes(Shown):
    """All differences of two models. compared: constants of the same name in both.

    structure: sentences on what is in one of them only, or computed differently.
    """

    compared: int
    tensors: tuple[TensorChange, ...]
    structure: tuple[str, ...]

    @property
    def are_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.tensors and not self.structure

    def summary(self) -> str:
        """Return a line that describes it."""
        if self.are_equal:
            return f"equal: {self.compared} weights and biases, and all operators"
        more = "".join(f"; {sentence}" for sentence in self.structure)
        return f"{len(self.tensors)} of {self.compared} weights and biases differ{more}"

    def records(self) -> list[Record]:
        """A row for each weight or bias that differs."""
        return [asdict(tensor) for tensor in self.tensors]

    def to_dict(self) -> Record:
        """Return it as `mcutrain diff --json` prints it, without the files' names."""
        return {
            "are_equal": self.are_equal,
            "compared": self.compared,
            "tensors": self.records(),
            "structure": list(self.structure),
        }


def compare_models(a: Graph, b: Graph) -> Changes:
    """Constants by name, then the operators in order; both formats are compared as mcutrain reads
    them, so that a weight has one layout."""
    ours, theirs = _constants(a), _constants(b)
    common = [name for name in ours if name in theirs]
    found = [_compare(ours[name], theirs[name]) for name in common]
    changed = tuple(c for c in found if c.differing or c.structure)
    sentences = [
        *_missing("only in the first", ours, theirs),
        *_missing("only in the second", theirs, ours),
        *_edges(a, b),
        *_operators(a, b),
    ]
    return Changes(len(common), changed, tuple(sentences))


def _constants(graph: Graph) -> dict[str, Tensor]:
    """Return the constants in the order in which nodes read them."""
    names = dict.fromkeys(n for node in graph.nodes for n in node.inputs)
    return {n: graph.tensors[n] for n in names if graph.tensors[n].is_constant}


def _compare(a: Tensor, b: Tensor) -> TensorChange:
    assert a.data is not None
    assert b.data is not None
    if _squeezed(a.type) != _squeezed(b.type) or a.type.dtype != b.type.dtype:
        words = f"{type_text(a.type)} is {type_text(b.type)}"
        return TensorChange(a.name, a.type.elements, structure=words)
    steps = np.abs(b.data.astype(np.int64).ravel() - a.data.astype(np.int64).ravel())
    real = np.abs(_real(b).ravel() - _real(a).ravel())
    return TensorChange(
        a.name,
        a.type.elements,
        int((steps != 0).sum()),
        int(steps.max(initial=0)),
        float(steps.mean()) if steps.size else 0.0,
        float(real.max(initial=0)),
        _quantization_differs(a.type, b.type),
    )


def _real(tensor: Tensor) -> Array:
    """The numbers that the integers mean."""
    assert tensor.data is not None
    scales = np.array(tensor.type.scales or (1.0,))
    if scales.size > 1:
        shape = [1] * tensor.data.ndim
        shape[tensor.type.axis] = -1
        scales = scales.reshape(shape)
    real: Array = (tensor.data.astype(np.float64) - tensor.type.zero_point) * scales
    return real


def _squeezed(kind: TensorType) -> tuple[int, ...]:
    return tuple(n for n in kind.shape if n != 1)


def _quantization_differs(a: TensorType, b: TensorType) -> str:
    if len(a.scales) != len(b.scales):
        return f"{len(a.scales)} scales are {len(b.scales)}"
    if a.zero_point != b.zero_point:
        return f"zero point {a.zero_point} is {b.zero_point}"
    is_alike = np.isclose(a.scales, b.scales, rtol=SCALE_TOLERANCE, atol=0.0)
    if not is_alike.all():
        first = int(np.argmin(is_alike))
        return f"scale {a.scales[first]:.6g} is {b.scales[first]:.6g}"
    return ""


def _missing(where: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> list[str]:
    return [
        f"{name!r} {type_text(t.type)} is {where}" for name, t in ours.items() if name not in theirs
    ]


def _edges(a: Graph, b: Graph) -> list[str]:
    """Inputs and outputs of another type."""
    found = []
    for what, ours, theirs in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        if len(ours) != len(theirs):
            found.append(f"{len(ours)} {what}s are {len(theirs)}")
            continue
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            texts = [type_text(g.tensors[n].type) for g, n in ((a, one), (b, other))]
            if texts[0] != texts[1]:
                found.append(f"{what} {i} {texts[0]} is {texts[1]}")
    return found


def _operators(a: Graph, b: Graph) -> list[str]:
    """The first operator that computes something else; views and names do not count."""
    ours, theirs = ([n for n in g.nodes if not n.op.is_view] for g in (a, b))
    if len(ours) != len(theirs):
        return [f"{len(ours)} operators are {len(theirs)}"]
    different = [(x, y) for x, y in zip(ours, theirs, strict=True) if x.op != y.op]
    if not different:
        return []
    x, y = different[0]
    kinds = [type(n.op).__name__ for n in (x, y)]
    what = f"{kinds[0]} is {kinds[1]}" if kinds[0] != kinds[1] else f"{kinds[0]} has other numbers"
    return [f"{len(different)} of {len(ours)} operators differ, first {x.name!r}: {what}"]
