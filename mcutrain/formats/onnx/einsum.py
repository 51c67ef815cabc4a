"""ONNX Einsum of two operands: a product of matrices, with their axes in any order."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.node import Constant, GraphNode, OnnxNode, V
from mcutrain.formats.onnx.products import of_two
from mcutrain.formats.onnx.shaping import in_order
from mcutrain.formats.onnx.sums import float_matmul
from mcutrain.formats.onnx.values import Value

ELLIPSIS = "..."
TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
MOST_LABELS = 16


@dataclass(frozen=True)
class Equation:
    """The axes of a, b and the result by their labels: a letter each."""

    a: str
    b: str
    result: str

    @property
    def batch(self) -> str:
        """Axes of all three."""
        return "".join(c for c in self.result if c in self.a and c in self.b)

    @property
    def rows(self) -> str:
        """Labels of the result that only a has."""
        return "".join(c for c in self.result if c not in self.b)

    @property
    def columns(self) -> str:
        """Labels of the result that only b has."""
        return "".join(c for c in self.result if c not in self.a)

    @property
    def summed(self) -> str:
        """Axes of both that the result has not."""
        return "".join(c for c in self.a if c not in self.result)

    @property
    def is_product(self) -> bool:
        """Whether nothing else is summed or repeated, and the result has no axes of its own."""
        terms = (self.a, self.b, self.result)
        is_plain = all(len(set(term)) == len(term) for term in terms)
        both = set(self.a) & set(self.b)
        summed = (set(self.a) | set(self.b)) - set(self.result)
        return is_plain and summed <= both and set(self.result) <= set(self.a) | set(self.b)

    @property
    def turned(self) -> Equation:
        """Return the equation with a and b in the other order."""
        return Equation(self.b, self.a, self.result)


def _equation(node: OnnxNode[Any], ranks: tuple[int, int]) -> Equation:
    """Parse the node's equation, with letters for the dots."""
    text = node.attributes.text("equation", "").replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not all(TERM.fullmatch(term) for term in (*terms, result)):
        raise node.wrong(f"its equation {text!r} is none")
    if len(terms) != len(node.inputs) or len(terms) != len(ranks):
        raise node.unsupported(f"the equation {text!r} is not; one of two operands is")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        result = ELLIPSIS * (ELLIPSIS in left) + "".join(once)
    free = [c for c in string.ascii_letters if c not in text]
    hidden = [rank - len(t.replace(ELLIPSIS, "")) for t, rank in zip(terms, ranks, strict=True)]
    if any(h if ELLIPSIS not in t else h < 0 for t, h in zip(terms, hidden, strict=True)):
        raise node.wrong(f"its equation {text!r} does not fit operands of {ranks} dimensions")
    dots = "".join(free[: max(hidden)])
    if len(dots) + len(set(text)) > MOST_LABELS:
        raise node.unsupported(f"more than {MOST_LABELS} labels are not; fewer are")
    a, b = (t.replace(ELLIPSIS, dots[len(dots) - h :]) for t, h in zip(terms, hidden, strict=True))
    found = Equation(a, b, result.replace(ELLIPSIS, dots))
    if not found.is_product:
        raise node.unsupported(
            f"the equation {text!r} is not; a product of matrices, perhaps with their axes in "
            "another order, is"
        )
    return found


def int8_einsum(node: Int8Node) -> Value:
    """Read an Einsum of two computed tensors."""
    return _product(node, None)


def float_einsum(node: FloatOnnx) -> FloatValue:
    """Read an Einsum of two computed tensors, or of one and a constant."""
    return _product(node, float_matmul)


def _product(node: GraphNode[V], of_constant: Callable[[Any], Any] | None) -> V:
    """of_constant: the product of rows and a constant matrix, where it is read."""
    given = [node.input(i) for i in range(len(node.inputs))]
    if len(given) != 2:
        raise node.unsupported(f"an equation of {len(given)} operands is not; of two is")
    equation = _equation(node, (len(given[0].shape), len(given[1].shape)))
    if isinstance(given[0], Constant):
        node, equation = node.reading(*node.inputs[::-1]), equation.turned
    known = node.input(1)
    a, b = node.real(0), known if isinstance(known, Constant) else node.real(1)
    lengths = _lengths(node, equation, a.shape, b.shape)

    def length(labels: str) -> int:
        return math.prod(lengths[c] for c in labels)

    batch = [lengths[c] for c in equation.batch if lengths[c] > 1]
    rows, columns, summed = equation.rows, equation.columns, equation.summed
    x = _seen(node, a, equation.a, equation.batch + rows + summed)
    if isinstance(b, Constant):
        if of_constant is None or batch:
            what = "with a matrix for each of several inputs" if batch else "with a constant"
            raise node.unsupported(f"a product {what} is not; of computed tensors is")
        x = node.seen(x, replace(x.layout, shape=(1, length(rows), length(summed))))
        data = b.data.transpose([equation.b.index(c) for c in summed + columns + equation.batch])
        matrix = replace(b, data=data.reshape(length(summed), length(columns)))
        y = of_constant(node.reading(x, matrix))
    else:
        other = _seen(node, b, equation.b, equation.batch + summed + columns)
        x = node.seen(x, replace(x.layout, shape=(1, *batch, length(rows), length(summed))))
        shape = (1, *batch, length(summed), length(columns))
        other = node.seen(other, replace(other.layout, shape=shape))
        y = of_two(node.reading(x, other))
    order = equation.batch + rows + columns
    y = node.seen(y, replace(y.layout, shape=tuple(lengths[c] for c in order)))
    return _seen(node, y, order, equation.result)


def _lengths(
    node: OnnxNode[Any], equation: Equation, a: tuple[int, ...], b: tuple[int, ...]
) -> dict[str, int]:
    """Return the lengths of the axes by their labels."""
    lengths = dict(zip(equation.a, a, strict=True))
    for label, length in zip(equation.b, b, strict=True):
        if lengths.setdefault(label, length) != length:
            raise node.unsupported(f"{a} and {b} are not; axes of one label have equal lengths")
    return lengths


def _seen(node: GraphNode[V], x: V, labels: str, wanted: str) -> V:
    """The value with its axes in another order."""
    return in_order(node, x, [labels.index(label) for label in wanted])
