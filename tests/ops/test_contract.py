"""The contract of every operator: types, exact meaning, C. A new one adds a line in cases.py."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mcutrain_host.toolchain import ZIG

import mcutrain.ops
from mcutrain.ir.op import Axis, KernelCall, Op, expanded_order
from mcutrain.simulation.build import SANITIZE
from tests.compiled import that_differ
from tests.drawing import drawn_by_commit
from tests.ops.c_harness import (
    FIRMWARE,
    NATIVE,
    Toolchain,
    expected,
    kernel_call,
    overwritten,
    updated_inputs,
    ways_to_overwrite,
)
from tests.ops.cases import CASES, Case, Sample
from tests.ops.drawing import SeededSource, drawn

SEEDED_SAMPLES = 20
"""Of each operator, for every compiler."""
SANITIZED_SAMPLES = 12
"""Of each operator; sanitizers make the compiler slow."""
DRAWN_SAMPLES = 16
"""Of each operator, by Hypothesis."""
FIELD_SAMPLES = 60

TIED = {
    *("conv_2d", "conv_2d_sums", "depthwise_conv_2d", "add", "rescale", "leaky_relu", "pad"),
    *(
        "mean",
        "image_sum",
        "average_pool_2d",
        "scaled_average_pool_2d",
        "max_pool_2d",
        "lookup",
        "mul",
        "add_channels",
        "transpose",
    ),
    *("resize", "batch_matmul", "layer_norm"),
}
"""Forward operators whose output channels can always be permuted."""

WITH_KERNEL = [case for case in CASES if case.name != "reshape"]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
each_kernel = pytest.mark.parametrize("case", WITH_KERNEL, ids=lambda c: c.name)


def seeded(case: Case, count: int) -> list[Sample]:
    return [seeded_one(case, seed) for seed in range(count)]


@cache
def seeded_one(case: Case, seed: int) -> Sample:
    return case.draw(SeededSource(seed))


def seeded_samples() -> list[Sample]:
    """The same of all builds, so that they share what calls the kernels."""
    return [sample for case in WITH_KERNEL for sample in seeded(case, SEEDED_SAMPLES)]


wanted_of = cache(expected)
"""What operands must hold after the call of a seeded sample."""


@cache
def seeded_calls(case: Case) -> tuple[KernelCall, ...]:
    """Enough to meet every kernel function and every optional table of an operator."""
    return tuple(kernel_call(sample) for sample in seeded(case, FIELD_SAMPLES))


def assert_equal(
    results: Sequence[dict[str, np.ndarray]],
    samples: Sequence[Sample],
    wanted: Sequence[dict[str, np.ndarray]] | None = None,
) -> None:
    """Every operand holds what the reference says: outputs, updated state, and untouched inputs.

    wanted: that, where it is known.
    """
    wanted = wanted or list(map(expected, samples))
    for found, values, sample in zip(results, wanted, samples, strict=True):
        for name, value in values.items():
            if not np.array_equal(found[name], value):  # which takes a tenth of what tells more
                where = f"{name} of {sample.op} for {sample.types}"
                np.testing.assert_array_equal(found[name], value, err_msg=where)


@pytest.fixture(scope="session")
def toolchain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    """The fastest way to run C: the first compiler, hardly optimising."""
    made = Toolchain.make(c_compilers[0], ["-O1"], tmp_path_factory.mktemp("kernels"))
    made.merge()
    return made


# --------------------------------------------------------------------------------- the reference


@each_case
@settings(max_examples=16)
@given(data=st.data())
def test_infer_agrees_with_what_reference_computes_in_any_order_of_channels(
    case: Case, data: st.DataObject
) -> None:
    sample = data.draw(drawn(case.draw))
    before = [value.copy() for value in sample.inputs]
    computed = sample.op.reference(*sample.inputs)
    assert len(sample.results) == len(computed)
    for t, value in zip(sample.results, computed, strict=True):
        assert value.shape == t.shape
        assert str(value.dtype) == ("int8" if t.dtype == "exponent" else t.dtype)
    for old, value in zip(before, sample.inputs, strict=True):
        np.testing.assert_array_equal(old, value, err_msg="reference changed its argument")
    if len(computed) == 1:  # masks are bits of elements in order; nobody permutes then
        orders = data.draw(st.lists(st.integers(0, 999), min_size=3, max_size=3))
        assert_channels_may_be_permuted(sample, computed[0], orders)


def assert_channels_may_be_permuted(
    sample: Sample, computed: np.ndarray, seeds: Sequence[int]
) -> None:
    """Each tie in an order of its own, on all its axes and in the operator's own numbers."""
    ties = sample.op.channel_ties(sample.types, sample.results)
    values = [*sample.inputs, computed]
    orders = []
    assert len(ties) <= len(seeds)
    for tie, seed in zip(ties, seeds, strict=False):
        lengths = {place(sample, a): values[place(sample, a)].shape[a.axis] for a in tie}
        (channels,) = {lengths[place(sample, a)] // (a.outer * a.inner) for a in tie}
        order = np.random.default_rng(seed).permutation(channels)
        orders.append(order)
        for a in tie:
            index = expanded_order(order, a.outer, a.inner)
            assert len(index) == lengths[place(sample, a)]
            values[place(sample, a)] = np.take(values[place(sample, a)], index, a.axis)
    op = sample.op.with_channel_order(*orders)
    (found,) = op.reference(*values[: len(sample.inputs)])
    np.testing.assert_array_equal(found, values[-1])


@each_case
def test_reference_and_kernel_depend_on_nothing_but_their_arguments(case: Case) -> None:
    for seed in range(3):
        sample, again = seeded_one(case, seed), case.draw(SeededSource(seed))
        assert sample.op == again.op
        assert hash(sample.op) == hash(again.op)
        for a, b in zip(
            sample.op.reference(*sample.inputs), again.op.reference(*again.inputs), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_every_operator_has_a_case() -> None:
    modules = [m.name for m in pkgutil.iter_modules(mcutrain.ops.__path__)]
    classes = {
        cls
        for module in modules
        for cls in vars(importlib.import_module(f"mcutrain.ops.{module}")).values()
        if inspect.isclass(cls) and issubclass(cls, Op) and not inspect.isabstract(cls)
    }
    assert classes == {type(sample.op) for case in CASES for sample in seeded(case, 3)}


def place(sample: Sample, axis: Axis) -> int:
    """Of an operand among the inputs and then the outputs."""
    return axis.operand.index + (0 if axis.operand.kind == "input" else len(sample.inputs))


@pytest.mark.parametrize("case", [c for c in CASES if c.name in TIED], ids=lambda c: c.name)
def test_an_operator_of_forward_networks_ties_its_channels(case: Case) -> None:
    for sample in seeded(case, 5):
        ties = sample.op.channel_ties(sample.types, sample.results[:1])
        tied = {(axis.operand.kind, axis.operand.index) for tie in ties for axis in tie}
        assert ("output", 0) in tied


# ------------------------------------------------------------------------------------ parameters


@cache
def headers() -> str:
    """All types that kernels and runtime declare, without comments."""
    paths = [*sorted(FIRMWARE.glob("runtime/*.h")), *sorted(FIRMWARE.glob("kernels/*/*.h"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@cache
def structs() -> dict[str, dict[str, str]]:
    """Struct name → field → C type, of all headers."""
    found: dict[str, dict[str, str]] = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\}\s*(\w+);", headers(), re.DOTALL):
        fields = found[name] = {}
        for declaration in filter(None, (d.strip() for d in body.split(";"))):
            found_one = re.fullmatch(r"(.*?[\s*])((?:\w+, )*\w+)", declaration)
            if found_one:  # arrays and functions are in no parameters
                kind, names = found_one.groups()
                fields.update({field: kind.strip() for field in names.split(", ")})
    for old, new in re.findall(r"typedef (\w+)\s+(\w+);", headers()):
        found[new] = found[old]
    return found


def leaves(struct: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(path, C type) of all fields, those of nested structs one by one."""
    for field, kind in structs()[struct].items():
        if kind in structs():
            yield from leaves(kind, f"{prefix}{field}.")
        else:
            yield prefix + field, kind


@each_kernel
def test_a_kernel_call_sets_every_field_of_its_parameter_struct_exactly_once(case: Case) -> None:
    for call in seeded_calls(case):
        declared = dict(leaves(f"{call.function}_params"))
        assert Counter(p.name for p in call.params) == Counter(list(declared)), call.function
        for p in call.params:
            if not isinstance(p.value, int):
                assert declared[p.name] == p.ctype, f"{call.function}: {p.name}"
            else:
                assert declared[p.name] in ("int32_t", "uint32_t"), f"{call.function}: {p.name}"
                limits = np.iinfo(declared[p.name].removesuffix("_t"))
                assert limits.min <= p.value <= limits.max


@each_kernel
def test_a_kernel_call_names_files_that_exist_and_define_the_function(case: Case) -> None:
    for call in seeded_calls(case):
        folder = FIRMWARE / "kernels" / call.kernel
        header = folder / f"mct_{call.kernel}.h"
        assert header.is_file()
        assert re.search(rf"void {call.function}\(", header.read_text())
        source = FIRMWARE / call.source
        assert source.parent == folder
        assert source.is_file()


def test_every_kernel_function_is_reached_by_a_case() -> None:
    reached = {call.function for case in WITH_KERNEL for call in seeded_calls(case)}
    kernels = "".join(p.read_text() for p in sorted(FIRMWARE.glob("kernels/*/*.h")))
    declared = set(re.findall(r"^void (mct_\w+)\(", kernels, re.MULTILINE))
    internal = {name for name in declared if f"{name}_params" not in structs()}
    assert declared - internal == reached


# ---------------------------------------------------------------------------------------------- C


@pytest.mark.slow
@pytest.mark.hypothesis
def test_c_computes_the_bits_of_the_reference_on_drawn_shapes(toolchain: Toolchain) -> None:
    """All in one program: to compile one for each operator takes far longer than to run them."""
    samples = [sample for case in WITH_KERNEL for sample in drawn_samples(case)]
    assert len(samples) >= 5 * len(WITH_KERNEL)
    assert_equal(toolchain.run(samples), samples)


def drawn_samples(case: Case) -> list[Sample]:
    """Those that Hypothesis draws; none is shrunk."""
    found: list[Sample] = []

    @settings(max_examples=DRAWN_SAMPLES, database=None, phases=[Phase.generate])
    @given(sample=drawn(case.draw))
    def draw(sample: Sample) -> None:
        found.append(sample)

    draw()
    return found


@pytest.mark.slow
def test_an_output_may_overwrite_each_input_that_the_operator_names(toolchain: Toolchain) -> None:
    among = seeded_samples()
    samples = [sample for sample in among if overwritten(sample, 0)]
    of_kinds = {type(sample.op) for sample in samples}
    assert all(not s.op.may_overwrite for s in among if type(s.op) not in of_kinds)
    for choice in range(max(map(ways_to_overwrite, samples))):
        kept = [sample for sample in samples if ways_to_overwrite(sample) > choice]
        for found, sample in zip(toolchain.run(kept, choice, among), kept, strict=True):
            for output in range(len(sample.results)):
                if output in sample.op.may_overwrite:
                    value = wanted_of(sample)[f"output {output}"]
                    np.testing.assert_array_equal(found[f"output {output}"], value)


@each_kernel
def test_an_updated_output_has_the_type_of_the_input_it_replaces(case: Case) -> None:
    for sample in seeded(case, SEEDED_SAMPLES):
        results = sample.results
        for output, place in updated_inputs(sample).items():
            assert results[output].layout() == sample.types[place].layout()
        for output, places in sample.op.may_overwrite.items():
            dtypes = {sample.types[place].dtype for place in places}
            assert dtypes == {results[output].dtype}


Build = tuple[tuple[str, ...], tuple[str, ...], bool]
"""Command, flags, whether with host bodies."""


def builds(c_compilers: list[tuple[str, ...]]) -> Iterator[Build]:
    """As users have it; then by each compiler, for this machine, for any, without host bodies."""
    any_machine = ("-march=x86-64",) if platform.machine() == "x86_64" else ()
    for i, command in enumerate(that_differ(c_compilers)):
        zig = ("-fno-sanitize=all",) if command == ZIG else ()
        yield command, (*(NATIVE if i == 0 else ("-O2", "-march=native")), *zig), True
        yield command, ("-O2", *zig), False
        if i == 0:
            yield command, ("-O1", *any_machine, *zig), True


@pytest.mark.slow
def test_every_compiler_computes_the_bits_of_the_reference(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """The first build, and one more of each commit."""
    samples = seeded_samples()
    wanted = list(map(wanted_of, samples))
    first, *others = builds(c_compilers)
    for i, (command, flags, host) in enumerate((first, *drawn_by_commit(others, 1))):
        folder = tmp_path / str(i)
        folder.mkdir()
        made = Toolchain.make(command, flags, folder, host)
        assert_equal(made.run(samples), samples, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "host"), [("gcc", False), ("clang", True)])
def test_no_kernel_does_what_address_or_undefined_behaviour_sanitizer_forbids(
    name: str, host: bool, sanitizing: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """Also where an output takes the place of an input, with scratch that is just large enough."""
    if name not in sanitizing:
        pytest.skip(f"{name} is absent or cannot link with {' '.join(SANITIZE)}")
    native = ["-march=native"] if host else []
    flags = ["-O0", *native, "-DEXACT_BUFFERS", *SANITIZE]  # compiles twice as fast
    made = Toolchain.make(sanitizing[name], flags, tmp_path, host)
    samples = [s for case in WITH_KERNEL for s in seeded(case, SANITIZED_SAMPLES)]
    assert_equal(made.run(samples), samples, list(map(wanted_of, samples)))
    upon = [s for s in samples if overwritten(s, 0)]
    for found, sample in zip(made.run(upon, in_place=0), upon, strict=True):
        np.testing.assert_array_equal(found["output 0"], wanted_of(sample)["output 0"])
