"""DEQUANTIZE, operators of one tensor, QUANTIZE in the middle of an int8 file: one table."""

import numpy as np
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.formats import load
from mcutrain.formats.tflite import islands
from mcutrain.formats.tflite.file import read_file
from mcutrain.ops.lookup import Lookup, lookup
from mcutrain.oracle.run_original import _run_tflite
from tests.formats.oracle import needs_interpreter
from tests.formats.tflite_builder import TfliteBuilder

SHAPE = (1, 16, 16, 1)
# Its fast kernel of QUANTIZE, the only one beside an ELU, divides otherwise than the reference.
TIE = 1e-4
INTEGERS = np.arange(-128, 128).reshape(SHAPE).astype(np.int8)


class Island:
    """An int8 tensor, RELU before and after it, between them what is made of it in float."""

    def __init__(self, scale=0.05, zero_point=-20):
        self.builder = TfliteBuilder()
        self.quantized = {"scale": scale, "zero_point": zero_point}
        self.x = self.builder.tensor("x", SHAPE, **self.quantized)
        self.tensor = self.builder.operator(
            "RESHAPE", [self.x, self.numbers(SHAPE, np.int32)], self.int8(), "ReshapeOptions"
        )

    def numbers(self, values, dtype=np.float32):
        return self.builder.constant(f"c{len(self.builder.tensors)}", np.array(values, dtype))

    def int8(self, **quantized):
        how = quantized or self.quantized
        return self.builder.tensor(f"t{len(self.builder.tensors)}", SHAPE, **how)

    def op(self, name, *inputs, table="", **options):
        y = self.builder.tensor(f"t{len(self.builder.tensors)}", SHAPE, "float32")
        self.tensor = self.builder.operator(name, list(inputs), y, table, **options)
        return self.tensor

    def enter(self):
        return self.op("DEQUANTIZE", self.tensor)

    def leave(self, scale=0.04, zero_point=-100):
        y = self.int8(scale=scale, zero_point=zero_point)
        self.tensor = self.builder.operator("QUANTIZE", [self.tensor], y)
        last = self.int8(scale=scale, zero_point=zero_point)
        self.tensor = self.builder.operator(
            "RESHAPE", [self.tensor, self.numbers(SHAPE, np.int32)], last, "ReshapeOptions"
        )

    def save(self, path):
        path.write_bytes(self.builder.content([self.x], [self.tensor]))
        return path


def elu():
    island = Island()
    island.op("ELU", island.enter())
    island.leave()
    return island


def softplus():
    island = Island()
    one = island.numbers(1.0)
    grown = island.op("ADD", island.op("EXP", island.enter()), one, table="AddOptions")
    island.op("LOG", grown)
    island.leave(0.03, -128)
    return island


def mish():
    island = Island()
    x, one = island.enter(), island.numbers(1.0)
    grown = island.op("ADD", island.op("EXP", x), one, table="AddOptions")
    island.op("MUL", x, island.op("TANH", island.op("LOG", grown)), table="MulOptions")
    island.leave()
    return island


def selu():
    island = Island()
    x = island.enter()
    below = island.op("MUL", island.op("ELU", x), island.numbers(1.758), table="MulOptions")
    island.op("MAXIMUM", below, island.op("MUL", x, island.numbers(1.05), table="MulOptions"))
    island.leave()
    return island


@needs_interpreter
@pytest.mark.oracle
@pytest.mark.parametrize("make", [elu, softplus, mish, selu])
def test_an_island_is_a_table_with_the_interpreters_integers(tmp_path, make):
    path = make().save(tmp_path / "m.tflite")
    graph = load(path)
    (node,) = graph.nodes
    assert isinstance(node.op, Lookup)
    theirs = _run_tflite(path, INTEGERS)[0][0]
    ours = node.op.reference(INTEGERS)[0]
    values = islands.with_tables(read_file(path)).operators[-2].options.at.reshape(SHAPE)
    beside = np.abs(values / np.float32(graph.tensors[node.outputs[0]].type.scale) % 1 - 0.5)
    assert np.array_equal(ours[beside > TIE], theirs[beside > TIE])
    assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_an_elu_in_float_is_the_table_of_an_elu_in_int8(tmp_path):
    graph = load(elu().save(tmp_path / "m.tflite"))
    (node,) = graph.nodes
    x, y = (graph.tensors[n].type for n in (node.inputs[0], node.outputs[0]))
    wanted = lookup("elu", x, y)
    assert node.op == wanted
    assert node.op.function == "elu"


@pytest.mark.parametrize("make", [softplus, mish])
def test_slopes_are_those_of_the_function(tmp_path, make):
    """Measured over whole steps, between which none of the functions bends much."""
    graph = load(make().save(tmp_path / "m.tflite"))
    op = graph.nodes[0].op
    slopes = np.array(op.slopes) * 2.0**op.slope_exp
    table = np.array(op.table, float)
    smooth = [i for i in range(12, 244) if table[i - 10] > -120 and table[i + 10] < 120]
    measured = np.array([(table[i + 10] - table[i - 10]) / 20 for i in smooth])
    assert np.abs(slopes[smooth] - measured).max() < 0.2


def two_tensors():
    island = Island()
    x = island.enter()
    other = island.op("DEQUANTIZE", island.builder.operator(
        "RELU", [island.x], island.int8(scale=0.05, zero_point=-128)
    ))  # fmt: skip
    island.op("MUL", x, other, table="MulOptions")
    island.leave()
    return island


def sums():
    island = Island()
    island.op("CUMSUM", island.enter(), island.numbers(1, np.int32), table="CumsumOptions")
    island.leave()
    return island


def infinite():
    island = Island(scale=10.0)
    island.op("EXP", island.enter())
    island.leave()
    return island


@pytest.mark.parametrize("make", [two_tensors, sums, infinite])
def test_what_is_no_table_is_refused(tmp_path, make):
    with pytest.raises(UnsupportedError, match="in the middle"):
        load(make().save(tmp_path / "m.tflite"))
