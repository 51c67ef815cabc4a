"""UpSampling by RESHAPE, TILE, RESHAPE: one resize, with the interpreter's numbers."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import UnsupportedError
from mcutrain.formats import load, read_float
from mcutrain.ir.interpret import interpret
from mcutrain.ops.resize import Resize
from mcutrain.oracle.run_original import _run_tflite
from mcutrain.quant.float_resize import FloatResize
from tests.formats.oracle import needs_interpreter, run_reference
from tests.formats.tflite_builder import TfliteBuilder

QUANTIZED = {"scale": 0.1, "zero_point": 3}


class Chain:
    """Views and TILEs on an image; how: of its tensors."""

    def __init__(self, shape, is_int8):
        self.how = ("int8", QUANTIZED) if is_int8 else ("float32", {})
        self.builder = TfliteBuilder()
        self.tensor = self.x = self.builder.tensor("x", shape, self.how[0], **self.how[1])
        self.shape = shape

    def then(self, name, shape, numbers):
        count = self.builder.constant(f"c{len(self.builder.tensors)}", np.array(numbers, np.int32))
        y = self.builder.tensor(f"t{len(self.builder.tensors)}", shape, self.how[0], **self.how[1])
        table = "ReshapeOptions" if name == "RESHAPE" else ""
        self.tensor = self.builder.operator(name, [self.tensor, count], y, table)
        self.shape = shape

    def view(self, *shape):
        self.then("RESHAPE", shape, shape)

    def tile(self, axis, times):
        numbers = [times if i == axis else 1 for i in range(len(self.shape))]
        shape = tuple(d * n for d, n in zip(self.shape, numbers, strict=True))
        self.then("TILE", shape, numbers)

    def save(self, path, *more):
        path.write_bytes(self.builder.content([self.x], [*more, self.tensor]))
        return path


def upsampled(shape, rows, columns, is_int8, joins=True):
    """As Keras writes it. joins: whether repeats of a row are neighbours, not whole copies."""
    chain = Chain(shape, is_int8)
    _, h, w, c = shape
    if rows > 1:
        chain.view(*((1, h, 1, w, c) if joins else (1, 1, h, w, c)))
        chain.tile(2 if joins else 1, rows)
    if columns > 1:
        chain.view(1, h * rows, w, 1, c)
        chain.tile(3, columns)
    chain.view(1, h * rows, w * columns, c)
    return chain


SIZES = st.tuples(st.just(1), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
FACTORS = st.tuples(st.integers(1, 3), st.integers(1, 3)).filter(lambda f: max(f) > 1)


@needs_interpreter
@pytest.mark.oracle
@settings(max_examples=10)
@given(shape=SIZES, factors=FACTORS)
def test_a_float_image_is_repeated(tmp_path_factory, shape, factors):
    path = tmp_path_factory.mktemp("m") / "m.tflite"
    upsampled(shape, *factors, is_int8=False).save(path)
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    network = read_float(path).network
    assert [type(n.op) for n in network.nodes] == [FloatResize]
    assert np.array_equal(network.run(x)[0], _run_tflite(path, x)[0][0])


@needs_interpreter
@pytest.mark.oracle
@settings(max_examples=10)
@given(shape=SIZES, factors=FACTORS)
def test_an_int8_image_is_repeated(tmp_path_factory, shape, factors):
    path = tmp_path_factory.mktemp("m") / "m.tflite"
    upsampled(shape, *factors, is_int8=True).save(path)
    graph = load(path)
    assert [type(n.op) for n in graph.nodes] == [Resize]
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    ours = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    assert np.array_equal(ours, run_reference(path, [[x]])[0][0])


def sequence(is_int8=False):
    chain = Chain((1, 5, 3), is_int8)
    chain.view(1, 5, 1, 3)
    chain.tile(2, 2)
    chain.view(1, 10, 3)
    return chain


def test_a_sequence_is_repeated(tmp_path):
    path = sequence().save(tmp_path / "m.tflite")
    x = np.random.default_rng(1).normal(0, 1, (1, 5, 3)).astype(np.float32)
    assert np.array_equal(read_float(path).network.run(x)[0], x.repeat(2, axis=1))


def copies_of_the_image():
    return upsampled((1, 3, 2, 2), 2, 1, is_int8=False, joins=False)


def repeated_channels():
    chain = Chain((1, 3, 2, 2), is_int8=False)
    chain.view(1, 3, 2, 1, 2)
    chain.tile(4, 2)
    chain.view(1, 3, 2, 4)
    return chain


def is_resized(path):
    """Whether it is read with a resize. A TILE for which there is no rule is refused instead."""
    with contextlib.suppress(UnsupportedError):
        kinds = [type(n.op) for n in read_float(path).network.nodes]
        return kinds == [FloatResize]
    return False


@pytest.mark.parametrize("make", [copies_of_the_image, repeated_channels])
def test_what_repeats_otherwise_is_no_resize(tmp_path, make):
    path = make().save(tmp_path / "m.tflite")
    assert not is_resized(path)


def test_a_tensor_between_that_others_read_stays(tmp_path):
    chain = Chain((1, 5, 3), is_int8=False)
    chain.view(1, 5, 1, 3)
    chain.tile(2, 2)
    between = chain.tensor
    chain.view(1, 10, 3)
    path = chain.save(tmp_path / "m.tflite", between)
    assert not is_resized(path)
