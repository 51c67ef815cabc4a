"""Recurrent layers of a float network: long short-term memory, gated recurrent units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ops.gru import Gru
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.recurrent import DIRECTIONS, Recurrent
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import FloatOp, NamedData, Quantization, Shape

Array = npt.NDArray[Any]

LARGEST_BIAS = 2**24
"""Of int32; gates whose weights are small beside their biases have larger scales for it."""


@dataclass(frozen=True, eq=False)
class FloatRecurrent(FloatOp):
    """A layer over x [n, steps, inputs], from a state of zeros; see `mcutrain.ops.recurrent`.

    w: [directions, gates, units, inputs], u: [directions, gates, units, units], b: [directions,
    gates, units]. h_bias: [directions, units], added to the last gate's products with h.
    """

    w: Array
    u: Array
    b: Array
    h_bias: Array
    direction: str = "forward"
    is_last: bool = False
    scales: tuple[Array | None, Array | None] = (None, None)
    """Of each gate of w and of u, if the file has them in int8: these are kept."""

    kind: ClassVar[type[Recurrent]]
    has_other_factors: ClassVar[bool] = True  # what its gates hold follows from weights

    @abstractmethod
    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step. sums: [n, steps, gates, units], of products with x."""

    @abstractmethod
    def made(self, stages: multipliers.GateStages, y: Quantization, steps: int) -> Recurrent:
        """The operator on int8 tensors. stages: of the gates."""

    def shape(self, *x: Shape) -> Shape:
        """A row of units for each step, or one for all."""
        ways, _, units, count = self.w.shape
        if len(x[0]) != 3 or x[0][2] != count:
            raise ValueError(f"weights of {count} inputs for rows of {x[0]}")
        return (x[0][0], *(() if self.is_last else (x[0][1],)), ways * units)

    def run(self, *x: Array) -> Array:
        """Direction by direction, step by step."""
        parts = []
        for k, is_reverse in enumerate(DIRECTIONS[self.direction]):
            rows = x[0][:, ::-1] if is_reverse else x[0]
            w, u, b, h_bias = (
                np.asarray(v[k], np.float32) for v in (self.w, self.u, self.b, self.h_bias)
            )
            sums = np.einsum("nsi,gui->nsgu", rows, w, optimize=True) + b
            found = self.steps(sums, u, h_bias)
            if self.is_last:
                parts.append(found[-1])
            else:
                parts.append(np.stack(found[::-1] if is_reverse else found, axis=1))
        return np.concatenate(parts, axis=-1)

    def quantized(self, x_scale: float) -> FloatOp:
        """Return the operator with its weights rounded as the int8 graph will have them."""
        (w, w_scales), (u, u_scales) = self._of_x(x_scale), self._of_h(1.0)
        return replace(self, w=_real(w, w_scales), u=_real(u, u_scales))

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Recurrent:
        """The operator of the family."""
        (kind,) = x
        _, w_scales = self._of_x(kind.scale)
        _, u_scales = self._of_h(y.scale)
        stages = (
            kind.zero_point,
            multipliers.gates(kind.scale, w_scales),
            multipliers.gates(y.scale, u_scales),
        )
        made = self.made(stages, y, kind.shape[1])
        return replace(made, direction=self.direction, is_last=self.is_last)

    def parameters(self, x: Sequence[TensorType], y: Quantization) -> Sequence[NamedData]:
        """Weights and biases, a row for each unit of each gate of each direction."""
        x_scale = x[0].scale
        found: list[NamedData] = []
        biases = [(self.b, x_scale, self._of_x(x_scale)[1])]
        for name, (data, scales) in (
            ("weight", self._of_x(x_scale)),
            ("recurrent_weight", self._of_h(y.scale)),
        ):
            rows = data.reshape(-1, data.shape[-1]).astype(np.int8)
            kind = TensorType(rows.shape, "int8", self._each(scales), 0, 0)
            found.append((name, kind, rows))
        if self.kind.has_h_bias:
            biases.append((self.h_bias[:, None], y.scale, self._of_h(y.scale)[1][-1:]))
        for name, (bias, scale, scales) in zip(("bias", "recurrent_bias"), biases, strict=False):
            units = [multipliers.single(scale * one) for one in scales]
            codes = np.rint(bias / np.array(units)[:, None]).ravel()
            if np.abs(codes).max() >= 2**30:
                raise ValueError(f"its {name} does not fit 32 bits beside its weights")
            each = tuple(np.tile(np.repeat(units, bias.shape[-1]), len(bias)).tolist())
            kind = TensorType(codes.shape, "int32", each, 0, 0)
            found.append((name, kind, codes.astype(np.int32)))
        return found

    def macs(self, y: Shape) -> int:
        """Products of a step, for each step; of the last one alone they are not known by y."""
        return (self.w.size + self.u.size) * (1 if self.is_last else y[1])

    def _each(self, scales: Sequence[float]) -> tuple[float, ...]:
        """Scales of gates as those of rows."""
        ways, _, units, _ = self.w.shape
        return tuple(np.tile(np.repeat(scales, units), ways).tolist())

    def _of_h(self, y_scale: float) -> tuple[Array, list[float]]:
        bias = np.zeros(self.b.shape)
        bias[:, -1] = self.h_bias
        return self._weights(self.u, bias, y_scale, self.scales[1])

    def _of_x(self, x_scale: float) -> tuple[Array, list[float]]:
        return self._weights(self.w, self.b, x_scale, self.scales[0])

    def _weights(
        self, w: Array, b: Array, x_scale: float, known: Array | None
    ) -> tuple[Array, list[float]]:
        """int8, and a scale for each gate; the same in all directions."""
        largest = [np.abs(v).max(axis=(0, *range(2, v.ndim))) for v in (w, b)]
        least = np.maximum(largest[0] / 127, largest[1] / (x_scale * LARGEST_BIAS))
        least = least if known is None else known
        scales = [multipliers.single(s) if s > 0 else 1.0 for s in least]
        codes = np.rint(w.astype(np.float64) / np.array(scales)[:, None, None])
        return np.clip(codes, -127 if known is None else -128, 127), scales


def _real(codes: Array, scales: Sequence[float]) -> Array:
    return np.asarray(codes * np.array(scales)[:, None, None], np.float32)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


@dataclass(frozen=True, eq=False)
class FloatLstm(FloatRecurrent):
    """Gates: input, forget, cell, output."""

    kind: ClassVar[type[Recurrent]] = Lstm

    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step."""
        c = h = np.zeros((len(sums), u.shape[-1]), np.float32)
        found = []
        for of_x in sums.swapaxes(0, 1):
            gates = of_x + np.einsum("nk,guk->ngu", h, u, optimize=True)
            i, f, o = (_sigmoid(gates[:, k]) for k in (0, 1, 3))
            c = f * c + i * np.tanh(gates[:, 2])
            h = o * np.tanh(c)
            found.append(h)
        return found

    def made(self, stages: multipliers.GateStages, y: Quantization, steps: int) -> Lstm:
        """The cell state has room for as many steps as there are."""
        hidden = multipliers.of_state(30, y.scale)
        bits = multipliers.cell_integer_bits(steps)
        return Lstm(*stages, hidden, y.zero_point, cell_integer_bits=bits)


@dataclass(frozen=True, eq=False)
class FloatGru(FloatRecurrent):
    """Gates: update, reset, candidate."""

    kind: ClassVar[type[Recurrent]] = Gru

    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step."""
        h = np.zeros((len(sums), u.shape[-1]), np.float32)
        found = []
        for of_x in sums.swapaxes(0, 1):
            of_h = np.einsum("nk,guk->ngu", h, u, optimize=True)
            z, r = (_sigmoid(of_x[:, k] + of_h[:, k]) for k in (0, 1))
            n = np.tanh(of_x[:, 2] + r * (of_h[:, 2] + h_bias))
            h = z * h + (1 - z) * n
            found.append(h)
        return found

    def made(self, stages: multipliers.GateStages, y: Quantization, steps: int) -> Gru:
        """The state has 15 bits behind the point."""
        return Gru(*stages, multipliers.of_state(15, y.scale), y.zero_point)
