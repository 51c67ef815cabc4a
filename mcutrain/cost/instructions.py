"""Instructions that a training step takes on a chip, node by node, estimated before it is built.

Each kernel function's count is a sum of terms, coefficient times feature. A feature is a product of
quantities that a node's call and types say: `dx.h*dx.w*dx.c/4`. The coefficients were fitted by
benchmarks/instruction_model.py to what virtual boards executed, and lie in firmware/costs/.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import TargetError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.op import NULL, FunctionName, Op, Operand, Param, Rows
from mcutrain.memplan.stream import Segment
from mcutrain.target import FIRMWARE

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

COSTS = FIRMWARE / "costs"
USUAL_ISA = "dsp"
"""Instruction set of the chips that most train on: Cortex-M4 and M7."""
HOST = "host"
"""The instruction set without a model: its processor is asked for times by `mcutrain profile`."""
OTHER = "other"
"""Whose terms stand for a function that was never measured; they are rather too high."""
ENGINE_INSTRUCTIONS = 700
"""Instructions of mct_stream.c for each strip, with the rows that it moves: measured, roughly."""
IMAGES = ("x", "y", "dx", "dy")
"""What calls say height and width of, as `x.h` and `x.w`."""
USUAL_SHIFTS = range(-20, 0)
"""Shifts with which the DSP kernels requantize in four instructions: mct_dsp_requantize.h."""
Terms = Mapping[str, float]
"""Feature → instructions for each of it."""


def estimate(training: TrainGraph, isa: str, segments: Sequence[Segment] = ()) -> Mapping[str, int]:
    """Instructions of one training step by the node's name, in execution order; views take none.

    segments: of the plan, whose nodes compute row by row; else every node is one call. The nodes
    that update once for several samples count with their share for one. isa: as a board has it.
    Empty for "host": what a processor with caches and SIMD does in a second is not a matter of
    instructions, and it is fast enough to ask.
    """
    costs = load_costs(isa)
    if not costs:
        return MappingProxyType({})
    by_node: dict[str, int] = {}
    for node, types, results in calls(training):
        by_node[node.name] = 0 if node.op.is_view else _node_cost(node.op, types, results, isa)
    for segment in segments:
        by_node.update(_segment_costs(training.graph, segment, isa))
    for node in training.apply:
        by_node[node.name] = round(by_node[node.name] / training.accumulate)
    return MappingProxyType(by_node)


def network_instructions(
    graph: Graph, isa: str, segments: Sequence[Segment] = ()
) -> Mapping[str, int]:
    """Estimate the instructions of an inference. segments: nodes that compute row by row."""
    if not load_costs(isa):
        return MappingProxyType({})
    found: dict[str, int] = {}
    for node in graph.nodes:
        types, results = graph.types(node.inputs), graph.types(node.outputs)
        found[node.name] = 0 if node.op.is_view else _node_cost(node.op, types, results, isa)
    for segment in segments:
        found.update(_segment_costs(graph, segment, isa))
    return MappingProxyType(found)


def nodes_of(training: TrainGraph) -> Mapping[str, str]:
    """Every node's kernel function, in execution order; "" for a view."""
    return {
        node.name: "" if node.op.is_view else node.op.kernel(types, results).function
        for node, types, results in calls(training)
    }


def model_for(isa: str) -> str:
    """The instruction set by whose model the nodes of a step are compared with each other.

    It is the board's own; for a host USUAL_ISA, until its times are measured. Raises TargetError
    for one whose costs nobody has fitted.
    """
    if isa == HOST:
        return USUAL_ISA
    if not load_costs(isa):
        raise TargetError(
            f"the instructions of {isa!r} are not known: fit them with "
            f"benchmarks/instruction_model.py, which writes firmware/costs/{isa}.toml, or choose a "
            "board with another instruction set"
        )
    return isa


@lru_cache(maxsize=8)
def load_costs(isa: str) -> Mapping[str, Terms]:
    """The terms of every function that was measured; empty for an unknown instruction set."""
    return read_costs(COSTS / f"{isa}.toml")


def read_costs(file: Path) -> Mapping[str, Terms]:
    """A file that benchmarks/instruction_model.py wrote; empty if there is none."""
    if not file.is_file():
        return MappingProxyType({})
    values: dict[str, dict[str, float]] = tomllib.loads(file.read_text(encoding="utf-8"))
    return MappingProxyType(values)


def strip_instructions(graph: Graph, segment: Segment, isa: str) -> Mapping[str, int]:
    """The most that one strip of each node of a segment takes."""
    found: dict[str, int] = {}
    for name, _, one in _strip_costs(graph, segment, isa):
        found[name] = max(found.get(name, 0), one)
    return MappingProxyType(found)


def _segment_costs(graph: Graph, segment: Segment, isa: str) -> Mapping[str, int]:
    """Every strip is a call, and what moves the rows is counted with the node that makes them."""
    found = dict.fromkeys((stage.node.name for stage in segment.stages), 0)
    for name, calls, one in _strip_costs(graph, segment, isa):
        found[name] += calls * one
    return found


def _strip_costs(graph: Graph, segment: Segment, isa: str) -> Iterator[tuple[str, int, int]]:
    """Yield for each kind of strip its node, how many there are, and what one takes."""
    heights = {t.name: t.rows for t in segment.tensors}
    strips: Counter[tuple[int, Strip]] = Counter()
    for place, first, count, _ in segment.flow.strips():
        if place >= 0:
            stage = segment.stages[place]
            height = heights[stage.reads[0]]
            begin, end = stage.rows.needed(first, count, height)
            pad_top = max(stage.rows.pad - first * stage.rows.stride, 0)
            strips[place, Strip(stage.rows, end - begin, count, pad_top)] += 1
    for (place, strip), calls in strips.items():
        node = segment.stages[place].node
        types, results = graph.types(node.inputs), graph.types(node.outputs)
        one = _node_cost(node.op, types, results, isa, strip) + ENGINE_INSTRUCTIONS
        yield node.name, calls, one


@dataclass(frozen=True)
class Strip:
    """Rows of an output that one call computes, of so many rows of input."""

    rows: Rows
    x_rows: int
    y_rows: int
    pad_top: int

    def changes(self, height: int, values: Mapping[str, float]) -> Mapping[str, float]:
        """The quantities that are others than for all rows. height: of the whole output."""
        share = self.y_rows / height
        names = (self.rows.counted, "macs", "inputs", "outputs")
        found = {name: values[name] * share for name in names if name in values}
        pairs = ((self.rows.x, self.x_rows), (self.rows.y, self.y_rows))
        return {**found, **dict(pairs), self.rows.pad_top: self.pad_top}


def quantities(
    op: Op,
    types: Sequence[TensorType],
    results: Sequence[TensorType],
    strip: Strip | None = None,
) -> tuple[str, Mapping[str, float]]:
    """Return the kernel function, and what features are made of, by name.

    strip: the call computes one strip of rows. The quantities are:

    the call's parameters; a table counts its numbers;
    .rare: the share of a table of shifts that is not in USUAL_SHIFTS;
    rule.direct.NAME: 1 for the function of that name;
    operand.N: 1 if the call's operand N is not NULL;
    macs; depth: macs per element of the first output;
    inputs and outputs: elements of all tensors;
    x.pixels and alike: height times width;
    taps: of windowed kernels, how often a window's tap lies in the image;
    multiplier: channels of places per channel of the image.
    """
    call = op.kernel(types, results)
    counts: dict[str, float] = {f"operand.{i}": o != NULL for i, o in enumerate(call.operands)}
    for param in call.params:
        counts.update(_numbers(param))
    if counts.get("parameter.residual_bits") == 2:
        counts["parameter.residual_bits"] = 4  # packed by the same instructions
    counts["1"] = 1
    counts["macs"] = op.macs(types, results)
    counts["depth"] = counts["macs"] // max(results[0].elements, 1)
    counts["inputs"] = sum(t.elements for t in types)
    counts["outputs"] = sum(t.elements for t in results)
    if strip is not None:
        counts.update(strip.changes(results[0].shape[1], counts))
    for image in IMAGES:
        if f"{image}.h" in counts:
            counts[f"{image}.pixels"] = counts[f"{image}.h"] * counts[f"{image}.w"]
    if "window.kernel_h" in counts:
        image, places = _image(counts), _places(counts)
        counts["multiplier"] = counts[f"{places}.c"] // max(counts[f"{image}.c"], 1)
        counts["taps"] = _taps(counts)
    return call.function, counts


def feature(name: str, values: Mapping[str, float]) -> float:
    """A product such as `y.h*y.w/4*y.c*y.w%4>0`.

    `/n` divides and rounds up, `%n` is the remainder, `=n` and `>n` are 1 if that holds, else 0.
    They apply from left to right, to the quantity that they follow.
    """
    product = 1.0
    for quantity, operations in _factors(name):
        value = values.get(quantity, 0)
        for operation, number in operations:
            value = operation(value, number)
        product *= value
    return product


def total(terms: Terms, values: Mapping[str, float]) -> float:
    """The sum of the terms."""
    return sum(c * feature(name, values) for name, c in terms.items())


def calls(
    training: TrainGraph,
) -> Iterator[tuple[Node, tuple[TensorType, ...], tuple[TensorType, ...]]]:
    """Every node with the types of its inputs and outputs, in execution order."""
    graph: Graph = training.graph
    for node in (*graph.nodes, *training.apply):
        yield node, graph.types(node.inputs), graph.types(node.outputs)


@lru_cache(maxsize=1 << 14)
def _node_cost(
    op: Op,
    types: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    isa: str,
    strip: Strip | None = None,
) -> int:
    costs = load_costs(isa)
    function, values = quantities(op, types, results, strip)
    return round(total(costs.get(function, costs[OTHER]), values))


def _numbers(param: Param) -> Mapping[str, float]:
    """A number itself; of a table its length, of shifts also how many are not the usual ones."""
    if isinstance(param.value, int):
        return {param.name: param.value}
    if isinstance(param.value, FunctionName):
        return {f"{param.name}.{param.value.name}": 1}
    if isinstance(param.value, Operand):
        return {param.name: 1}
    table = param.value or ()
    if not param.name.endswith("shift") or not table:
        return {param.name: len(table)}
    rare = sum(1 for shift in table if shift not in USUAL_SHIFTS)
    return {param.name: len(table), f"{param.name}.rare": rare / len(table)}


OPERATIONS: Mapping[str, Callable[[float, int], float]] = {
    "/": lambda value, number: -(-value // number),
    "%": lambda value, number: value % number,
    "=": lambda value, number: float(value == number),
    ">": lambda value, number: float(value > number),
}
Factor = tuple[str, tuple[tuple[Callable[[float, int], float], int], ...]]


@lru_cache(maxsize=1 << 10)
def _factors(name: str) -> tuple[Factor, ...]:
    return tuple(_factor(part) for part in name.split("*"))


def _factor(text: str) -> Factor:
    quantity = re.split("[/%=>]", text)[0]
    found = re.findall(r"([/%=>])(-?\d+)", text[len(quantity) :])
    return quantity, tuple((OPERATIONS[operator], int(number)) for operator, number in found)


def _image(values: Mapping[str, float]) -> str:
    return "x" if "x.h" in values else "dx"


def _places(values: Mapping[str, float]) -> str:
    return "y" if "y.h" in values else "dy"


def _taps(values: Mapping[str, float]) -> int:
    """Pairs of a window's place and a tap of it that lie in the image."""
    return _inside(values, "h", "top") * _inside(values, "w", "left")


def _inside(values: Mapping[str, float], axis: str, pad: str) -> int:
    """Count the taps that lie inside the image, along one axis."""
    names = (f"window.kernel_{axis}", f"window.stride_{axis}", f"window.dilation_{axis}")
    kernel, stride, dilation = (int(values[name]) for name in names)
    size, count = (int(values[f"{i}.{axis}"]) for i in (_image(values), _places(values)))
    return _inside_line(kernel, stride, dilation, int(values[f"window.pad_{pad}"]), size, count)


@lru_cache(maxsize=1 << 10)
def _inside_line(kernel: int, stride: int, dilation: int, pad: int, size: int, count: int) -> int:
    places = range(-pad, -pad + count * stride, stride)
    taps = range(0, kernel * dilation, dilation)
    return sum(0 <= place + tap < size for place in places for tap in taps)
