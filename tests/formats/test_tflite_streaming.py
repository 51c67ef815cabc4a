"""Streaming .tflite files, step by step against the interpreter, and as windows."""

from dataclasses import replace

import numpy as np
import pytest
import tflite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import load, patch
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.tflite import as_installed, interpreter, tflite_outputs
from mcutrain.quant.stepping import stepwise
from tests.formats.oracle import needs_interpreter
from tests.formats.streaming_models import StreamingBuilder, streaming_model
from tests.formats.tflite_builder import TfliteBuilder

SEEDS = st.integers(0, 2**32 - 1)
SHAPES = st.sampled_from(
    [
        {},
        {"fresh": 2},
        {"fresh": 3, "stride": 3, "kernels": (5, 3)},
        {"fresh": 2, "stride": 2, "kernels": (2, 4)},
        {"kernels": (4, 3, 5), "with_shortcut": True, "fresh": 2},
        {"kernels": (1, 6), "seen": 7},
        {"kernels": (2, 4, 3), "with_shortcut": True},
        {"fresh": 2, "is_real": True},
        {"fresh": 2, "is_pooled": True, "seen": 5},
        {"fresh": 4, "stride": 2, "kernels": (3, 2), "seen": 3},
    ]
)


class Steps:
    """The network by numpy, a step at a time."""

    def __init__(self, graph):
        self.stepped = stepwise(as_installed(graph), graph.step_rows)
        types = {r.kept: self.stepped.graph.tensors[r.kept].type for r in self.stepped.rings}
        self.state = {n: np.full(t.shape, t.zero_point, np.int8) for n, t in types.items()}

    def step(self, x):
        graph = self.stepped.graph
        name = graph.inputs[0]
        shape = graph.tensors[name].type.shape
        found = interpret(graph, {name: x.reshape(shape), **self.state})
        self.state = {ring.kept: found[ring.new] for ring in self.stepped.rings}
        return found[graph.outputs[0]]


def loaded(tmp_path, content):
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    return load(path)


def interpreted(content):
    module = interpreter().module
    made = module.Interpreter(
        model_content=content, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
    )
    made.allocate_tensors()
    x, y = made.get_input_details()[0], made.get_output_details()[0]

    def step(rows):
        made.set_tensor(x["index"], rows.reshape(x["shape"]))
        made.invoke()
        return made.get_tensor(y["index"])

    return step


@needs_interpreter
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, how=SHAPES)
def test_every_step_gives_the_interpreters_bits(tmp_path_factory, seed, how):
    content = streaming_model(seed, **how)
    graph = loaded(tmp_path_factory.mktemp("model"), content)
    ours, theirs = Steps(graph), interpreted(content)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        x = rng.integers(-128, 128, (1, graph.step_rows, 4, 2)).astype(np.int8)
        assert (ours.step(x) == theirs(x)).all()


@pytest.mark.slow
@needs_interpreter
@pytest.mark.parametrize("seed", [10, 1])
def test_a_thousand_steps_give_the_interpreters_bits(tmp_path, seed):
    content = streaming_model(
        seed, fresh=3, stride=3, kernels=(5, 3, 7), with_shortcut=True, seen=9
    )
    graph = loaded(tmp_path, content)
    ours, theirs = Steps(graph), interpreted(content)
    rng, different, seen = np.random.default_rng(2), 0, set()
    for _ in range(1000):
        x = np.clip(rng.normal(0, 60, (1, 3, 4, 2)), -128, 127).astype(np.int8)
        y = theirs(x)
        different += int((ours.step(x) != y).sum())
        seen.add(y.tobytes())
    assert different == 0
    assert len(seen) > 100


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, how=SHAPES)
def test_a_window_gives_what_its_last_step_gives(tmp_path_factory, seed, how):
    graph = loaded(tmp_path_factory.mktemp("model"), streaming_model(seed, **how))
    (x,) = graph.inputs
    shape, fresh = graph.tensors[x].type.shape, graph.step_rows
    steps = -(-shape[1] // fresh)
    rng = np.random.default_rng(seed)
    rows = rng.integers(-128, 128, (1, steps * fresh, 4, 2)).astype(np.int8)
    whole = interpret(as_installed(graph), {x: rows[:, -shape[1] :]})[graph.outputs[0]]
    ours = Steps(graph)
    ours.step(rng.integers(-128, 128, (1, fresh, 4, 2)).astype(np.int8))  # what was before
    for part in np.split(rows, steps, axis=1):
        last = ours.step(part)
    assert (last == whole).all()


def test_a_window_is_as_long_as_an_output_depends_on(tmp_path):
    graph = loaded(tmp_path, streaming_model(0, kernels=(3, 5), seen=4))
    assert graph.tensors[graph.inputs[0]].type.shape == (1, 3 + 4 + 3, 4, 2)
    assert graph.step_rows == 1
    assert stepwise(graph, 1).ring_bytes == 2 * 4 * 2 + 4 * 4 + 3 * 4


@needs_interpreter
@pytest.mark.parametrize("how", [{"fresh": 2, "seen": 5}, {"seen": 6}])
def test_a_mean_of_the_last_rows_has_no_stride(tmp_path, how):
    content = streaming_model(2, is_pooled=True, **how)
    graph = loaded(tmp_path, content)
    ours, theirs = Steps(graph), interpreted(content)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.integers(-128, 128, (1, graph.step_rows, 4, 2)).astype(np.int8)
        assert (ours.step(x) == theirs(x)).all()


@needs_interpreter
def test_verifying_feeds_a_file_step_by_step(tmp_path):
    content = streaming_model(3, fresh=2, kernels=(4, 5))
    graph = loaded(tmp_path, content)
    shape = graph.tensors[graph.inputs[0]].type.shape
    assert shape[1] % 2 == 1  # the first step begins before the window
    samples = np.random.default_rng(0).integers(-128, 128, (5, *shape[1:])).astype(np.int8)
    ours = [
        interpret(as_installed(graph), {graph.inputs[0]: x[None]})[graph.outputs[0]]
        for x in samples
    ]
    assert (tflite_outputs(content, samples, graph) == np.concatenate(ours)).all()


def test_a_trained_file_keeps_its_variables(tmp_path):
    graph = loaded(tmp_path, streaming_model(4))
    rng = np.random.default_rng(0)
    changed = {
        n: replace(t, data=rng.integers(-127, 128, t.data.shape).astype(t.data.dtype))
        for n, t in graph.tensors.items()
        if t.data is not None and t.data.ndim > 1
    }
    trained = replace(graph, tensors={**graph.tensors, **changed})
    assert patch(tmp_path / "m.tflite", graph, trained, tmp_path / "t.tflite") == ""
    read = load(tmp_path / "t.tflite")
    x = rng.integers(-128, 128, graph.tensors[graph.inputs[0]].type.shape).astype(np.int8)
    for one in (trained, read):
        assert one.step_rows == 1
    outputs = [interpret(g, {g.inputs[0]: x})[g.outputs[0]] for g in (graph, trained, read)]
    assert (outputs[1] == outputs[2]).all()
    assert (outputs[0] != outputs[1]).any()
    sizes = [len((tmp_path / name).read_bytes()) for name in ("m.tflite", "t.tflite")]
    assert sizes[0] == sizes[1]


def refused(tmp_path, b, x, y):
    with pytest.raises(ModelError) as caught:
        loaded(tmp_path, b.content(x, y))
    return str(caught.value)


def begun(shape=(1, 1, 4, 2)):
    b = StreamingBuilder(np.random.default_rng(0))
    like = b.like()
    return b, like, b.main.tensor("x", shape, **like)


def test_a_state_that_does_not_begin_with_zeros_is_refused(tmp_path):
    b, like, x = begun()
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like, first=like["zero_point"] + 1)
    text = refused(tmp_path, b, x, b.dense(memory, 32, 2))
    assert "does not begin with zeros" in text


def test_a_state_that_begins_with_fewer_zeros_is_refused(tmp_path, monkeypatch):
    b, like, x = begun()
    real = TfliteBuilder.constant

    def one(self, name, data, **more):
        return real(self, name, data.ravel()[:1] if "zeros" in name else data, **more)

    with monkeypatch.context() as patched:
        patched.setattr(TfliteBuilder, "constant", one)
        memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    text = refused(tmp_path, b, x, b.dense(memory, 32, 2))
    assert "does not begin with zeros" in text


@pytest.mark.parametrize("is_assigned", [False, True])
def test_a_state_that_nothing_reads_is_left_out(tmp_path, is_assigned):
    b, _, x = begun()
    if is_assigned:
        handle = b.main.tensor("state", (), "resource")
        b.main.operator("VAR_HANDLE", [], handle, "VarHandleOptions", SharedName="state")
        b.main.operator("ASSIGN_VARIABLE", [handle, x], [], "AssignVariableOptions")
    graph = loaded(tmp_path, b.content(x, b.dense(x, 8, 2)))
    assert graph.step_rows == 0
    assert graph.tensors[graph.inputs[0]].type.shape == (1, 1, 4, 2)


@pytest.mark.parametrize("count", [0, 2])
def test_a_streaming_network_takes_one_input(tmp_path, count):
    b, like, x = begun()
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    y = b.dense(memory, 32, 2)
    xs = [x, b.main.tensor("x2", (1, 1, 4, 2), **like)][:count]
    with pytest.raises(UnsupportedError, match=f"takes {count} inputs beside its state"):
        loaded(tmp_path, b.main.content(xs, [y], more=[b.once.subgraph([], [])]))


def test_a_state_that_keeps_other_rows_is_refused(tmp_path, monkeypatch):
    b, like, x = begun()
    real = StreamingBuilder.rows
    monkeypatch.setattr(
        StreamingBuilder,
        "rows",
        lambda self, y, s, begin, end, like: real(self, y, s, 0, end - begin, like),
    )
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    text = refused(tmp_path, b, x, b.dense(memory, 32, 2))
    assert "is not the last rows of" in text
    assert "export the model without streaming" in text


def test_a_state_of_what_has_no_time_is_refused(tmp_path):
    b, like, x = begun()
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    y = b.dense(memory, 32, 4)
    image = b.main.tensor("image", (1, 1, 1, 4), **b.main_like(y))
    b.main.operator("RESHAPE", [y, b.numbers(1, 1, 1, 4)], image, "ReshapeOptions")
    memory, _ = b.ring(image, (1, 1, 1, 4), 2, b.main_like(y))
    text = refused(tmp_path, b, x, b.dense(memory, 12, 2))
    assert "no longer that of time" in text


def test_rows_beside_what_is_of_all_rows_are_refused(tmp_path):
    b, like, x = begun()
    y, shape, like = b.conv(x, (1, 1, 4, 2), 4, 1)
    memory, _ = b.ring(y, shape, 2, like)
    gate = b.dense(memory, 12, 4)
    image = b.main.tensor("image", shape, **b.main_like(gate))
    b.main.operator("RESHAPE", [gate, b.numbers(*shape)], image, "ReshapeOptions")
    total = b.main.tensor("total", shape, **like)
    b.main.operator("ADD", [y, image], total, "AddOptions")
    memory, _ = b.ring(total, shape, 2, like)
    text = refused(tmp_path, b, x, b.dense(memory, 12, 2))
    assert "no longer that of time" in text


def test_rows_that_are_computed_again_are_refused(tmp_path):
    b, like, x = begun()
    memory, shape = b.ring(x, (1, 1, 4, 2), 5, like)
    y, shape, _ = b.conv(memory, shape, 4, 3)
    y, shape, _ = b.conv(y, shape, 4, 2)
    text = refused(tmp_path, b, x, b.dense(y, 12, 2))
    assert "computed again" in text


def test_a_variable_that_is_only_read_is_refused(tmp_path):
    b, like, x = begun()
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    b.main.operators.pop()
    with pytest.raises(UnsupportedError, match="no ASSIGN_VARIABLE changes"):
        loaded(tmp_path, b.content(x, b.dense(memory, 32, 2)))


@needs_interpreter
def test_a_layer_that_pads_rows_reads_all_there_are(tmp_path):
    b, like, x = begun((1, 1, 1, 2))
    memory, shape = b.ring(x, (1, 1, 1, 2), 4, like)
    y, shape, _ = b.conv(memory, shape, 4, 3, is_same=True)
    content = b.content(x, b.dense(y, 20, 3))
    graph = loaded(tmp_path, content)
    ours, theirs = Steps(graph), interpreted(content)
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.integers(-128, 128, (1, 1, 1, 2)).astype(np.int8)
        assert (ours.step(rows) == theirs(rows)).all()


def test_what_differs_from_row_to_row_is_refused(tmp_path):
    b, like, x = begun((1, 2, 1, 4))
    each = np.arange(8).astype(np.int8).reshape(1, 2, 1, 4)
    total = b.main.tensor("total", (1, 2, 1, 4), **like)
    b.main.operator("ADD", [x, b.main.constant("each", each, **like)], total, "AddOptions")
    memory, _ = b.ring(total, (1, 2, 1, 4), 2, like)
    assert "no longer that of time" in refused(tmp_path, b, x, b.dense(memory, 16, 2))


def test_a_variable_that_is_read_behind_its_assignment_is_refused(tmp_path):
    b, like, x = begun()
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    names = [op.fields["OpcodeIndex"] for op in b.main.operators]
    codes = [b.main.codes[i] for i in names]
    read = codes.index(tflite.BuiltinOperator.READ_VARIABLE)
    b.main.operators.append(b.main.operators.pop(read))
    assert "behind the assignment" in refused(tmp_path, b, x, b.dense(memory, 32, 2))


def test_a_variable_that_is_assigned_in_another_scale_is_refused(tmp_path, monkeypatch):
    b, like, x = begun()
    real = StreamingBuilder.rows
    monkeypatch.setattr(
        StreamingBuilder, "rows", lambda self, *args: real(self, *args[:4], {**like, "scale": 0.5})
    )
    memory, _ = b.ring(x, (1, 1, 4, 2), 3, like)
    assert "assigns what is not quantized" in refused(tmp_path, b, x, b.dense(memory, 32, 2))
