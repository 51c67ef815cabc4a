"""Small float .tflite files with recurrent layers: one LSTM, and the WHILE of Keras' layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.formats.tflite_builder import NO_TENSOR, Table, TfliteBuilder

Array = npt.NDArray[Any]
CLASSES = 3


@dataclass
class FloatLayer:
    """A layer, and a dense one behind its last step, or behind the mean of its steps.

    kind: lstm, gru, or fused, the LSTM of one operator. activation: of cell and candidate. state:
    what each begins with. size: of the largest weight. turns: of the loop, where these are not the
    steps. stored: float16 of the fused one's weights. begins: which axes a slice takes from their
    first place on. body: the loop's subgraph. turned: the axis that is_back turns around, where it
    is not that of the steps. grows: the list is twice as long after each turn.
    """

    kind: str = "lstm"
    steps: int = 5
    inputs: int = 4
    units: int = 3
    seed: int = 0
    size: float = 1.0
    is_sequence: bool = False
    is_back: bool = False
    has_bias: bool = True
    activation: str = "TANH"
    gate: str = "LOGISTIC"
    state: float = 0.0
    turns: int | None = None
    resets_before: bool = False
    batch: int = 1
    clip: float = 10.0
    stored: str = "float32"
    begins: int = 0b101
    body: int = 2
    turned: int | None = None
    grows: bool = False

    def real(self, *shape: int) -> Array:
        """Drawn weights."""
        self.rng = getattr(self, "rng", None) or np.random.default_rng(self.seed)
        return (self.size * self.rng.uniform(-1, 1, shape)).astype(np.float32)

    def content(self) -> bytes:
        """The file."""
        self.rng = np.random.default_rng(self.seed)
        b = TfliteBuilder()
        x = b.tensor("x", (self.batch, self.steps, self.inputs), "float32")
        more: list[Table] = []
        if self.kind == "fused":
            y = self._fused(b, self._reversed(b, x, 1, "turned"))
        else:
            y, more = self._loop(b, x)
        return b.content([x], [self._head(b, y)], more=more)

    def _reversed(self, b: TfliteBuilder, x: int, axis: int, name: str) -> int:
        if not self.is_back:
            return x
        axis = axis if self.turned is None else self.turned
        axes = b.constant(f"{name}/axis", np.array([axis], np.int32))
        y = b.tensor(name, tuple(b.tensors[x].fields["Shape"].tolist()), "float32")
        return int(b.operator("REVERSE_V2", [x, axes], y))

    def _head(self, b: TfliteBuilder, y: int) -> int:
        shape = (1, self.units)
        if self.is_sequence:
            y = self._reversed(b, y, 1, "turned back")
            axes = b.constant("axes", np.array([1], np.int32))
            y = b.operator("MEAN", [y, axes], b.tensor("mean", shape, "float32"), "ReducerOptions")
        elif self.kind == "fused":
            y = _row(b, y, (0, -1, 0), 2, self.begins, shape, "last")
        w, bias = b.constant("w", self.real(CLASSES, self.units)), b.constant("b", self.real(3))
        logits = b.tensor("logits", (1, CLASSES), "float32")
        return int(b.operator("FULLY_CONNECTED", [y, w, bias], logits, "FullyConnectedOptions"))

    def _fused(self, b: TfliteBuilder, x: int) -> int:
        operands, n = [NO_TENSOR] * 24, self.units
        operands[0] = x
        for k in range(4):
            for place, shape in ((1, (n, self.inputs)), (5, (n, n)), (12, (n,))):
                operands[place + k] = self._weight(b, f"{place}/{k}", self.real(*shape))
        for k in (18, 19):
            operands[k] = b.tensor(f"state {k}", (1, n), "float32")
            b.tensors[operands[k]].fields["IsVariable"] = True
        return int(
            b.operator(
                "UNIDIRECTIONAL_SEQUENCE_LSTM",
                operands,
                b.tensor("y", (1, self.steps, n), "float32"),
                "UnidirectionalSequenceLSTMOptions",
                FusedActivationFunction=4,
                CellClip=self.clip,
            )
        )

    def _weight(self, b: TfliteBuilder, name: str, data: Array) -> int:
        """Stored as is asked for."""
        if self.stored == "float32" or data.ndim == 1:
            return b.constant(name, data)
        half = b.constant(f"{name}/half", data.astype(np.float16))
        return int(b.operator("DEQUANTIZE", [half], b.tensor(name, data.shape, "float32")))

    # --------------------------------------------------------------------------------- the loop

    def _loop(self, b: TfliteBuilder, x: int) -> tuple[int, list[Table]]:
        """Rows first, the loop, and its list, or what it ends with."""
        n, length = self.units, self.steps if self.is_sequence else 1
        rows = b.tensor("rows", (self.steps, self.batch, self.inputs), "float32")
        shape = b.constant("rows/shape", np.array([self.steps, self.batch, self.inputs], np.int32))
        rows = b.operator("RESHAPE", [x, shape], rows, "ReshapeOptions")
        rows = self._reversed(b, rows, 0, "turned")
        zero = b.constant("zero", np.array(0, np.int32))
        listed = b.constant("list", np.zeros((length, 1, n), np.float32))
        start = b.constant("start", np.full((1, n), self.state, np.float32))
        states = 2 if self.kind == "lstm" else 1
        inputs = [zero, listed, *[start] * states, rows]
        outputs = [
            b.tensor(f"loop/{k}", tuple(b.tensors[i].fields["Shape"].tolist()), kind)
            for k, i in enumerate(inputs)
            for kind in ("int32" if i == zero else "float32",)
        ]
        more = [self._condition(b, states), self._body(b, states, length)]
        options = {"CondSubgraphIndex": 1, "BodySubgraphIndex": self.body}
        b.operator("WHILE", inputs, outputs, "WhileOptions", **options)
        if self.is_sequence:
            shape = b.constant("steps/shape", np.array([1, self.steps, n], np.int32))
            y = b.tensor("steps", (1, self.steps, n), "float32")
            return b.operator("RESHAPE", [outputs[1], shape], y, "ReshapeOptions"), more
        return _row(b, outputs[1], (-1, 0, 0), 1, 0b110, (1, n), "last"), more

    def _arguments(self, b: TfliteBuilder, states: int, length: int) -> list[int]:
        n = self.units
        shapes = [(length, 1, n), *[(1, n)] * states, (self.steps, self.batch, self.inputs)]
        found = [b.tensor("turn", (), "int32")]
        return [*found, *(b.tensor(f"in/{k}", s, "float32") for k, s in enumerate(shapes))]

    def _condition(self, file: TfliteBuilder, states: int) -> Table:
        b = file.beside()
        given = self._arguments(b, states, self.steps if self.is_sequence else 1)
        count = self.steps if self.turns is None else self.turns
        limit = b.constant("count", np.array(count, np.int32))
        goes_on = b.operator("LESS", [given[0], limit], b.tensor("goes on", (), "bool"))
        return b.subgraph(given, [goes_on])

    def _body(self, file: TfliteBuilder, states: int, length: int) -> Table:
        b = _Body(file.beside(), self)
        turn, listed, *given, rows = given_ = self._arguments(b.b, states, length)
        one = b.b.constant("one", np.array(1, np.int32))
        after = b.b.operator("ADD", [turn, one], b.b.tensor("after", (), "int32"), "AddOptions")
        x = b.op("GATHER", [rows, turn], (1, self.inputs), "GatherOptions", Axis=0)
        h, new = b.lstm(x, *given) if self.kind == "lstm" else b.gru(x, *given)
        row = b.shaped(h, (1, 1, self.units))
        if length > 1:
            row = b.put(listed, row, turn, after, length)
        if self.grows:
            shape = (2, 1, self.units)
            row = b.op("CONCATENATION", [listed, listed], shape, "ConcatenationOptions", Axis=0)
        return b.b.subgraph(given_, [after, row, h, *new, rows])


@dataclass
class _Body:
    """What a turn computes."""

    b: TfliteBuilder
    of: FloatLayer

    def op(self, name: str, x: list[int], shape: tuple[int, ...], table: str = "", **o: Any) -> int:
        y = self.b.tensor(f"{name} {len(self.b.tensors)}", shape, "float32")
        return int(self.b.operator(name, x, y, table, **o))

    def row(self, name: str, *x: int) -> int:
        if name == "LINEAR":
            return x[0]
        table = f"{name.title()}Options" if len(x) > 1 else ""
        return self.op(name, [*x], (1, self.of.units), table)

    def shaped(self, x: int, shape: tuple[int, ...]) -> int:
        wanted = self.b.constant(f"shape {len(self.b.tensors)}", np.array(shape, np.int32))
        return self.op("RESHAPE", [x, wanted], shape, "ReshapeOptions")

    def dense(self, x: int, count: int, gates: int, bias: bool) -> int:
        of, width = self.of, gates * self.of.units
        w = self.b.constant(f"w {len(self.b.tensors)}", of.real(width, count))
        b = self.b.constant(f"b {len(self.b.tensors)}", of.real(width)) if bias else NO_TENSOR
        return self.op("FULLY_CONNECTED", [x, w, b], (1, width), "FullyConnectedOptions")

    def parts(self, x: int, gates: int) -> list[int]:
        axis = self.b.constant(f"axis {len(self.b.tensors)}", np.array(1, np.int32))
        made = [
            self.b.tensor(f"part {k} of {x}", (1, self.of.units), "float32") for k in range(gates)
        ]
        found: list[int] = self.b.operator(
            "SPLIT", [axis, x], made, "SplitOptions", NumSplits=gates
        )
        return found

    def lstm(self, x: int, h: int, c: int) -> tuple[int, list[int]]:
        of = self.of
        a, b = self.dense(h, of.units, 4, False), self.dense(x, of.inputs, 4, False)
        total = self.op("ADD", [b, a], (1, 4 * of.units), "AddOptions")
        if of.has_bias:
            bias = self.b.constant("bias", of.real(4 * of.units))
            total = self.op("ADD", [total, bias], (1, 4 * of.units), "AddOptions")
        i, f, g, o = self.parts(total, 4)
        i, f, o = (self.row(of.gate, v) for v in (i, f, o))
        new = self.row("MUL", i, self.row(of.activation, g))
        c = self.row("ADD", self.row("MUL", f, c), new)
        return self.row("MUL", o, self.row(of.activation, c)), [c]

    def gru(self, x: int, h: int) -> tuple[int, list[int]]:
        of = self.of
        zx, rx, nx = self.parts(self.dense(x, of.inputs, 3, of.has_bias), 3)
        if of.resets_before:
            zh, rh = self.parts(self.dense(h, of.units, 2, of.has_bias), 2)
            r = self.row(of.gate, self.row("ADD", rx, rh))
            inner = self.dense(self.row("MUL", r, h), of.units, 1, of.has_bias)
        else:
            zh, rh, nh = self.parts(self.dense(h, of.units, 3, of.has_bias), 3)
            r = self.row(of.gate, self.row("ADD", rx, rh))
            inner = self.row("MUL", r, nh)
        z = self.row(of.gate, self.row("ADD", zx, zh))
        n = self.row(of.activation, self.row("ADD", nx, inner))
        one = self.b.constant("1", np.array(1, np.float32))
        return self.row(
            "ADD", self.row("MUL", z, h), self.row("MUL", self.row("SUB", one, z), n)
        ), []

    def put(self, listed: int, row: int, turn: int, after: int, length: int) -> int:
        """The list with a row in the turn's place, cut and joined as the converter has it."""
        b, n = self.b, self.of.units

        def place(name: str, of: int, end: tuple[int, int]) -> int:
            first = b.constant(f"{name}/1", np.array([1], np.int32))
            rest = b.constant(f"{name}/rest", np.array(end, np.int32))
            one = b.operator(
                "RESHAPE", [of, first], b.tensor(f"{name}/of", (1,), "int32"), "ReshapeOptions"
            )
            y = b.tensor(name, (3,), "int32")
            return int(b.operator("CONCATENATION", [one, rest], y, "ConcatenationOptions"))

        def cut(begin: int, size: int) -> int:
            y = self.op("SLICE", [listed, begin, size], (1, 1, n), "SliceOptions")
            b.tensors[y].fields["ShapeSignature"] = np.full(3, -1, np.int32)
            return y

        zeros = b.constant("zeros", np.zeros(3, np.int32))
        whole = b.constant("whole", np.full(3, -1, np.int32))
        before = cut(zeros, place("size", turn, (-1, -1)))
        behind = cut(place("begin", after, (0, 0)), whole)
        parts, shape = [before, row, behind], (length, 1, n)
        return self.op("CONCATENATION", parts, shape, "ConcatenationOptions", Axis=0)


def _row(
    b: TfliteBuilder,
    x: int,
    begin: tuple[int, ...],
    shrinks: int,
    whole: int,
    shape: tuple[int, ...],
    name: str,
) -> int:
    places = [
        b.constant(f"{name}/{k}", np.array(v, np.int32))
        for k, v in enumerate((begin, (0, 0, 0), (1, 1, 1)))
    ]
    options = {"BeginMask": whole, "EndMask": whole | shrinks, "ShrinkAxisMask": shrinks}
    y = b.tensor(name, shape, "float32")
    return int(b.operator("STRIDED_SLICE", [x, *places], y, "StridedSliceOptions", **options))
