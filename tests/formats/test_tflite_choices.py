"""SELECT of what follows from one int8 tensor: a table with the interpreter's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import UnsupportedError
from mcutrain.formats import load
from mcutrain.formats.tflite.choices import COMPARISONS, SELECTS
from mcutrain.ops.lookup import Lookup
from mcutrain.oracle.run_original import _run_tflite
from tests.formats.oracle import needs_interpreter
from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.tflite_models import scales, zero_points

SHAPE = (1, 16, 16, 1)
INTEGERS = np.arange(-128, 128).reshape(SHAPE).astype(np.int8)


class Cases:
    """y = x compared with a number ? x * factor : x + number, in int8."""

    def __init__(self, scale=0.05, zero_point=-20, y_scale=0.04, y_zero_point=-3):
        self.builder = TfliteBuilder()
        self.given = {"scale": scale, "zero_point": zero_point}
        self.found = {"scale": y_scale, "zero_point": y_zero_point}
        self.x = self.tensor(**self.given)

    def tensor(self, dtype="int8", shape=SHAPE, **quantized):
        return self.builder.tensor(f"t{len(self.builder.tensors)}", shape, dtype, **quantized)

    def number(self, value, **quantized):
        data = np.array([value], np.int8)
        return self.builder.constant(f"c{len(self.builder.tensors)}", data, **quantized)

    def scaled(self, x, factor, scale=0.02):
        y = self.tensor(**self.found)
        return self.builder.operator("MUL", [x, self.number(factor, scale=scale)], y, "MulOptions")

    def moved(self, x, number, scale=0.02):
        y = self.tensor(**self.found)
        return self.builder.operator("ADD", [x, self.number(number, scale=scale)], y, "AddOptions")

    def compared(self, name, *operands):
        table = f"{name.replace('_', ' ').title().replace(' ', '')}Options"
        return self.builder.operator(name, list(operands), self.tensor("bool"), table)

    def select(self, *operands, name="SELECT_V2"):
        table = "SelectOptions" if name == "SELECT" else "SelectV2Options"
        return self.builder.operator(name, list(operands), self.tensor(**self.found), table)

    def save(self, path, y):
        path.write_bytes(self.builder.content([self.x], [y]))
        return path


def one_node(path):
    (node,) = load(path).nodes
    assert isinstance(node.op, Lookup)
    return node.op


@needs_interpreter
@pytest.mark.oracle
@settings(max_examples=60)
@given(
    names=st.tuples(st.sampled_from(sorted(COMPARISONS)), st.sampled_from(SELECTS)),
    x=st.tuples(scales, zero_points),
    y=st.tuples(scales, zero_points),
    limit=st.tuples(st.integers(-128, 127), scales, zero_points),
    numbers=st.tuples(st.integers(-128, 127), st.integers(-128, 127)),
    turned=st.booleans(),
)
def test_cases_are_a_table_with_the_interpreters_integers(
    tmp_path_factory, names, x, y, limit, numbers, turned
):
    cases = Cases(*x, *y)
    value, scale, zero_point = limit
    operands = [cases.x, cases.number(value, scale=scale, zero_point=zero_point)]
    condition = cases.compared(names[0], *operands[:: -1 if turned else 1])
    branches = cases.scaled(cases.x, numbers[0]), cases.moved(cases.x, numbers[1])
    path = cases.save(
        tmp_path_factory.mktemp("m") / "m.tflite", cases.select(condition, *branches, name=names[1])
    )
    assert np.array_equal(one_node(path).reference(INTEGERS)[0], _run_tflite(path, INTEGERS)[0][0])


@needs_interpreter
@pytest.mark.oracle
def test_cases_of_cases_are_one_table(tmp_path):
    """x above 1 ? 2x : (x below -1 ? x + 0.5 : x / 2), the inner ones on what the outer gave."""
    cases = Cases(0.02, 5, 0.04, -3)
    low = cases.compared("LESS", cases.x, cases.number(-50, scale=0.02))
    inner = cases.select(low, cases.moved(cases.x, 25), cases.scaled(cases.x, 25))
    high = cases.compared("GREATER", cases.x, cases.number(50, scale=0.02))
    path = cases.save(tmp_path / "m.tflite", cases.select(high, cases.scaled(cases.x, 100), inner))
    op = one_node(path)
    assert np.array_equal(op.reference(INTEGERS)[0], _run_tflite(path, INTEGERS)[0][0])


def test_slopes_are_those_of_each_case(tmp_path):
    """In units of the output for one of the input: factor times their scales' ratio."""
    zero = 100
    cases = Cases(0.05, zero, 0.05, zero)
    condition = cases.compared("GREATER", cases.x, cases.number(0, scale=0.05))
    y = cases.select(condition, cases.scaled(cases.x, 25, 0.02), cases.scaled(cases.x, 100, 0.01))
    op = one_node(cases.save(tmp_path / "m.tflite", y))
    slopes = np.array(op.slopes) * 2.0**op.slope_exp
    x = np.arange(-128, 128) - zero
    assert np.allclose(slopes[x > 0], 0.5, atol=1e-2)
    assert np.allclose(slopes[x < 0], 1.0, atol=1e-2)


def of_two_tensors(cases):
    other = cases.tensor(shape=SHAPE, **cases.found)
    size = cases.builder.constant("n", np.array([4], np.int32))
    cases.builder.operator("CUMSUM", [cases.x, size], other, "CumsumOptions")
    condition = cases.compared("GREATER", cases.x, cases.number(0, scale=0.05))
    return cases.select(condition, other, cases.scaled(cases.x, 25))


def of_rows(cases):
    """A limit for each place is no function of one number."""
    rows = cases.builder.constant("rows", np.zeros((1, 1, 16, 1), np.int8), scale=0.05)
    condition = cases.compared("LESS", cases.x, rows)
    return cases.select(condition, cases.moved(cases.x, 3), cases.scaled(cases.x, 25))


@pytest.mark.parametrize("made", [of_two_tensors, of_rows])
def test_what_is_no_function_of_one_tensor_is_refused(made, tmp_path):
    cases = Cases()
    with pytest.raises(UnsupportedError, match=r"SELECT_V2 \(node .* is not supported"):
        load(cases.save(tmp_path / "m.tflite", made(cases)))
