"""Layer normalization as exporters write it in parts, told by how the parts hang together.

    d = x - mean(x);  y = d / sqrt(mean(d * d) + epsilon) * gamma + beta

as TensorFlow has it, x * g + (beta - mean(x) * g) with g = gamma / sqrt(...), as Keras 3 has it,
x * g + (-mean(x) * g + beta), and with the variance as JAX' Flax has it,
max(mean(x * x) - mean(x) * mean(x), 0). A root mean square normalization is the same without the
mean, x / sqrt(mean(x * x) + epsilon); one by the length is x / max(|x|, epsilon).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]
Constants = Callable[[str], Array | None]
"""The numbers of a tensor, if they are known."""

MOST_EPSILON = 1.0
LAST_ADD = "Add before an activation"
"""A kind of part: an Add that only the last part may be, since an activation is fused into it."""


@dataclass(frozen=True)
class NormalizationPart:
    """An operator of a file. kind: its name in ONNX, another for what is no part of any.

    axes: of a ReduceMean or ReduceL2 that keeps them, with a length of 1; empty where they are not
    known.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Deviation:
    """A sqrt(mean((x - mean)**2) + epsilon): its name, and those of x and of x - mean.

    is_centred: otherwise the mean is left out, and x is among the differences. is_length: the root
    is of the sum.
    """

    name: str
    x: str
    differences: frozenset[str]
    means: frozenset[str]
    axes: tuple[int, ...]
    epsilon: float
    is_centred: bool = True
    is_length: bool = False


@dataclass(frozen=True)
class Shift:
    """mean * g where it is subtracted, or -mean * g where it is added."""

    name: str
    is_added: bool


@dataclass(frozen=True)
class Normalized:
    """What is a layer normalization. gamma, beta: constants, "" for none."""

    output: str
    of: Deviation
    gamma: str = ""
    beta: str = ""


def normalized(
    parts: Sequence[NormalizationPart],
    constant: Constants,
    outputs: Collection[str],
    along_any: bool = False,
) -> dict[str, Normalized]:
    """Return each layer normalization by its last tensor. outputs: of the model.

    along_any: gamma and beta may vary along other axes than those that are normalized, too.
    """
    found = _NormalizationParts(parts, constant, outputs, along_any).found()
    return {one.output: one for one in found}


def _around_zero(
    name: str, x: str, axes: tuple[int, ...], epsilon: float, is_length: bool = False
) -> Deviation:
    no_mean: frozenset[str] = frozenset()
    return Deviation(name, x, frozenset({x}), no_mean, axes, epsilon, False, is_length)


class _NormalizationParts:
    """The parts of a graph by what they compute and read."""

    def __init__(
        self,
        parts: Sequence[NormalizationPart],
        constant: Constants,
        outputs: Collection[str],
        along_any: bool,
    ) -> None:
        self.along_any = along_any
        self.producers = {name: part for part in parts for name in part.outputs}
        self.readers: dict[str, list[NormalizationPart]] = defaultdict(list)
        for part in parts:
            for name in dict.fromkeys(part.inputs):
                self.readers[name].append(part)
        self.constant, self.outputs = constant, outputs

    def found(self) -> Iterator[Normalized]:
        """All of them."""
        for node in self.producers.values():
            deviation = self._deviation(node) if node.kind == "Sqrt" else self._length(node)
            for one in self._normalized(deviation) if deviation else ():
                yield self._shifted(self._scaled(one))

    # ------------------------------------------------------------------ what nodes are

    def _with_constant(self, node: NormalizationPart, other: str) -> str:
        """The input beside `other`, if it is constant; else nothing."""
        rest = [name for name in node.inputs if name != other]
        return rest[0] if len(rest) == 1 and self.constant(rest[0]) is not None else ""

    def _number(self, name: str) -> float | None:
        value = self.constant(name)
        return float(value.ravel()[0]) if value is not None and value.size == 1 else None

    def _mean(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return what a mean is of, and its axes."""
        node = self.producers.get(name)
        if node is None or node.kind != "ReduceMean":
            return None
        return (node.inputs[0], node.axes) if node.axes else None

    def _squared(self, name: str) -> str:
        """Return what the tensor is the square of; nothing if it is none."""
        node = self.producers.get(name)
        if node is None:
            return ""
        is_square = node.kind == "Mul" and len(set(node.inputs)) == 1
        is_power = node.kind == "Pow" and self._number(node.inputs[1]) == 2.0
        return node.inputs[0] if is_square or is_power else ""

    def _deviation(self, root: NormalizationPart) -> Deviation | None:
        """Return what a Sqrt is the deviation of."""
        added = self.producers.get(root.inputs[0])
        if added is None or added.kind != "Add":
            return None
        for name in added.inputs:
            epsilon = self._number(self._with_constant(added, name))
            if epsilon is None or not 0 <= epsilon <= MOST_EPSILON:
                continue
            found = self._variance(name) or self._difference_of_means(self._not_negative(name))
            if found is not None:
                x, axes = found
                means = {
                    n.outputs[0] for n in self.readers[x] if self._mean(n.outputs[0]) == (x, axes)
                }
                alike = {
                    n.outputs[0]
                    for n in self.readers[x]
                    if n.kind == "Sub" and n.inputs[0] == x and n.inputs[1] in means
                }
                return Deviation(
                    root.outputs[0], x, frozenset(alike), frozenset(means), axes, epsilon
                )
            x, axes = self._mean_square(name)
            if x:
                return _around_zero(root.outputs[0], x, axes, epsilon)
        return None

    def _mean_square(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return what mean(x * x) is of, and its axes; nothing if it is none."""
        mean = self._mean(name)
        x = self._squared(mean[0]) if mean else ""
        return x, mean[1] if mean else ()

    def _length(self, node: NormalizationPart) -> Deviation | None:
        """Return what a ReduceL2 is the length of, held above a small number, and repeated."""
        if node.kind != "ReduceL2" or not node.axes:
            return None
        x, name, least = node.inputs[0], node.outputs[0], 0.0
        limit = self._sole_reader(name, "Clip") or self._sole_reader(name, "Max")
        if limit is not None:
            number = self._number(limit.inputs[1]) if len(limit.inputs) > 1 else None
            if number is None or limit.inputs[0] != name or any(limit.inputs[2:]):
                return None
            name, least = limit.outputs[0], number
        if repeated := self._sole_reader(name, "Expand"):
            name = repeated.outputs[0]
        if not 0 <= least <= MOST_EPSILON:
            return None
        return _around_zero(name, x, node.axes, least * least, is_length=True)

    def _variance(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return what mean((x - mean(x))**2) is of, and its axes."""
        mean = self._mean(name)
        difference = self.producers.get(self._squared(mean[0])) if mean else None
        if mean is None or difference is None or difference.kind != "Sub":
            return None
        x, its_mean = difference.inputs
        return (x, mean[1]) if self._mean(its_mean) == (x, mean[1]) else None

    def _difference_of_means(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return what mean(x * x) - mean(x) * mean(x) is of, and its axes."""
        difference = self.producers.get(name)
        if difference is None or difference.kind != "Sub":
            return None
        of_squares = self._mean(difference.inputs[0])
        of_x = self._mean(self._squared(difference.inputs[1]))
        if of_squares is None or of_x is None or of_squares[1] != of_x[1]:
            return None
        return of_x if self._squared(of_squares[0]) == of_x[0] else None

    def _not_negative(self, name: str) -> str:
        """Return what the tensor is where that is not negative, and 0 elsewhere; or the tensor."""
        node = self.producers.get(name)
        if node is None or node.kind not in ("Max", "Relu"):
            return name
        rest = [n for n in node.inputs if self._number(n) != 0.0]
        is_limit = len(rest) == 1 and (node.kind == "Relu" or len(node.inputs) == 2)
        return rest[0] if is_limit else name

    # ------------------------------------------------------------------ what they make together

    def _normalized(self, of: Deviation) -> Iterator[Normalized]:
        """Differences by the deviation, or times its reciprocal and perhaps gamma."""
        for node in self.readers[of.name]:
            if node.kind == "Div" and node.inputs[1] == of.name:
                if node.inputs[0] in of.differences:
                    yield Normalized(node.outputs[0], of)
                elif self._number(node.inputs[0]) == 1.0:
                    yield from self._times(of, node.outputs[0])
            elif node.kind == "Reciprocal":
                yield from self._times(of, node.outputs[0])

    def _times(self, of: Deviation, factor: str, gamma: str = "") -> Iterator[Normalized]:
        """Return what is multiplied by 1 / deviation, or by gamma / deviation."""
        for node in self.readers[factor]:
            if node.kind != "Mul":
                continue
            (other,) = [name for name in node.inputs if name != factor] or [factor]
            if other in of.differences:
                yield Normalized(node.outputs[0], of, gamma)
            elif other == of.x:
                yield from self._completed(of, factor, node.outputs[0], gamma)
            elif not gamma and self._fits(of, other):
                yield from self._times(of, node.outputs[0], other)

    def _completed(
        self, of: Deviation, factor: str, product: str, gamma: str
    ) -> Iterator[Normalized]:
        """x * factor + (beta - mean * factor), or + (-mean * factor + beta), or without beta."""
        for node in self.readers[product]:
            (rest,) = [name for name in node.inputs if name != product] or [""]
            if node.kind not in ("Add", LAST_ADD):
                continue
            for moved, beta in self._shifts(rest):
                means = self._negated(of.means) if moved.is_added else of.means
                factors = self._factors(moved.name)
                is_shift = any(factors == {mean, factor} for mean in means)
                if is_shift and (not beta or self._fits(of, beta)):
                    yield Normalized(node.outputs[0], of, gamma, beta)

    def _shifts(self, name: str) -> Iterator[tuple[Shift, str]]:
        """What may be made of the mean in beta - mean * g, and beta, which "" stands for if not."""
        yield Shift(name, is_added=True), ""
        node = self.producers.get(name)
        if node is not None and node.kind == "Sub":
            yield Shift(node.inputs[1], is_added=False), node.inputs[0]
        if node is not None and node.kind == "Add" and len(node.inputs) == 2:
            for other in node.inputs:
                beta = self._with_constant(node, other)
                if beta:
                    yield Shift(other, is_added=True), beta

    def _factors(self, name: str) -> set[str]:
        """The two factors of a product; none of what is no product."""
        node = self.producers.get(name)
        return set(node.inputs) if node is not None and node.kind == "Mul" else set()

    def _negated(self, names: Collection[str]) -> set[str]:
        """Return what is the negative of one of them."""
        return {
            node.outputs[0] for name in names for node in self.readers[name] if node.kind == "Neg"
        }

    def _fits(self, of: Deviation, name: str) -> bool:
        """Return whether it is a constant with at most a number for each that is normalized."""
        value = self.constant(name)
        if value is None or self.along_any:
            return value is not None
        longer = [i - value.ndim for i, length in enumerate(value.shape) if length > 1]
        if all(axis < 0 for axis in of.axes):
            return set(longer) <= set(of.axes)
        return len(longer) <= len(of.axes)

    def _sole_reader(self, name: str, kind: str) -> NormalizationPart | None:
        readers = self.readers[name]
        alone = len(readers) == 1 and name not in self.outputs
        return readers[0] if alone and readers[0].kind == kind else None

    def _scaled(self, one: Normalized) -> Normalized:
        """Take in the gamma that follows."""
        node = self._sole_reader(one.output, "Mul")
        gamma = self._with_constant(node, one.output) if node else ""
        if node is None or one.gamma or one.beta or not self._fits(one.of, gamma):
            return one
        return Normalized(node.outputs[0], one.of, gamma)

    def _shifted(self, one: Normalized) -> Normalized:
        """Take in the beta that follows."""
        node = self._sole_reader(one.output, "Add") or self._sole_reader(one.output, LAST_ADD)
        beta = self._with_constant(node, one.output) if node else ""
        if node is None or one.beta or not self._fits(one.of, beta):
            return one
        return Normalized(node.outputs[0], one.of, one.gamma, beta)
