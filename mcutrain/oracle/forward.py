"""Is the forward pass right? Ours, by numpy and by C, against the file's own runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError, UnsupportedError, some_of
from mcutrain.formats import load, rounding_of
from mcutrain.formats.tflite.read import rounding_of_uint8
from mcutrain.formats.tflite.write import tflite_content
from mcutrain.ir.difference import drawn_inputs
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ir.verify import verify
from mcutrain.oracle.onnxruntime import check_onnxruntime, onnxruntime_outputs
from mcutrain.oracle.tflite import as_installed, interpreter, tflite_outputs
from mcutrain.pipeline import prepare
from mcutrain.shown import Record, Shown

Array = npt.NDArray[Any]
Report = Callable[[str, int, int], None]
"""What is being computed, samples done, of how many."""

SMOOTH_CELLS = 9
NOISE = 12.0
BLOCK = 8


@dataclass(frozen=True)
class Agreement:
    """Two computations of the same outputs. differing: of `outputs` numbers in all.

    same_class: share of samples whose largest output is at the same place.
    """

    of: str
    against: str
    samples: int
    outputs: int
    differing: int
    largest: int
    mean: float
    same_class: float

    @staticmethod
    def between(of: str, found: Array, against: str, expected: Array) -> Agreement:
        """found may hold fewer samples than expected: the first ones."""
        a = found.reshape(len(found), -1).astype(np.int64)
        b = expected[: len(found)].reshape(len(found), -1).astype(np.int64)
        steps = np.abs(a - b)
        same = float((a.argmax(axis=1) == b.argmax(axis=1)).mean())
        return Agreement(
            of,
            against,
            len(a),
            a.size,
            int((steps != 0).sum()),
            int(steps.max()),
            float(steps.mean()),
            same,
        )


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """exact: every comparison must be without difference. unchecked: what was not compared, why.

    original: of a .tflite file of uint8, how its int8 form, which `comparisons` are about, computes
    as it. note: how weights were rounded to become int8, from which differences come.
    """

    runtime: str
    exact: bool
    comparisons: tuple[Agreement, ...]
    unchecked: tuple[str, ...] = ()
    original: Agreement | None = None
    note: str = ""

    @property
    def is_right(self) -> bool:
        """Whether nothing that must be equal differs."""
        return not self.exact or all(c.differing == 0 for c in self.comparisons)

    def summary(self) -> str:
        """Return a line that describes it."""
        found = ", ".join(f"{c.of}: {c.differing:,} of {c.outputs:,}" for c in self.comparisons)
        return f"outputs other than those of {self.runtime}: {found}"

    def records(self) -> list[Record]:
        """A row for each comparison."""
        return [asdict(c) for c in self.comparisons]

    def to_dict(self) -> Record:
        """Return it as `mcutrain verify --json` prints it, without the file's name."""
        return {
            "runtime": self.runtime,
            "exact": self.exact,
            "is_right": self.is_right,
            "comparisons": self.records(),
            "unchecked": list(self.unchecked),
            "original": None if self.original is None else asdict(self.original),
            "note": self.note or None,
        }


def compare(
    path: Path,
    samples: int = 200,
    reference_samples: int = 20,
    seed: int = 0,
    report: Report = lambda *_: None,
    inputs: Callable[[Graph], Array] | None = None,
) -> Verdict:
    """Our forward passes against the reference runtime of the file's format.

    samples: how many inputs are drawn. inputs: makes others, int8 [n, …] as the graph takes them,
    instead. reference_samples: how many of them the numpy reference computes, which is slow.
    """
    graph = verify(load(path))
    if len(graph.inputs) != 1:
        raise UnsupportedError(
            f"{path} has {len(graph.inputs)} inputs; models with one can be verified"
        )
    if graph.row:
        raise UnsupportedError(
            f"the outputs {some_of(map(repr, graph.output_names))} are compared one by one: name "
            "one of them (--model-output)"
        )
    if path.suffix.lower() == ".onnx":
        check_onnxruntime()
    else:
        interpreter()  # a sentence before the data is read
    x = draw_inputs(graph, samples, seed) if inputs is None else inputs(graph)
    way = _compare_onnx if path.suffix.lower() == ".onnx" else _compare_tflite
    return way(path, graph, x, reference_samples, report)


def draw_inputs(graph: Graph, count: int, seed: int) -> Array:
    """int8 [n, …]: in turns uniform noise and smooth images with a little noise; or token ids."""
    rng = np.random.default_rng(seed)
    if graph.vocabulary(graph.inputs[0]):
        return drawn_inputs(graph, graph.inputs[0], rng, count)
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    return np.stack(
        [_noise(rng, shape) if i % 2 == 0 else _smooth(rng, shape) for i in range(count)]
    )


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A coarse grid of values, enlarged, or for features normal numbers; plus noise."""
    if len(shape) == 3:
        height, width, channels = shape
        coarse = rng.integers(-128, 128, (SMOOTH_CELLS, SMOOTH_CELLS, channels))
        rows = np.arange(height) * SMOOTH_CELLS // height
        columns = np.arange(width) * SMOOTH_CELLS // width
        base = coarse[rows[:, None], columns].astype(np.float64)
    else:
        base = rng.normal(0, 30, shape)
    return np.clip(np.rint(base + rng.normal(0, NOISE, shape)), -128, 127).astype(np.int8)


def _compare_tflite(
    path: Path, graph: Graph, x: Array, reference_samples: int, report: Report
) -> Verdict:
    found = interpreter()
    runtime = f"{found.package.replace('_', '-')}, BUILTIN_REF"
    expected = tflite_outputs(path, x, graph, lambda n: report(runtime, n, len(x)))
    original, note = None, rounding_of_uint8(path)
    if note:
        uint8, runtime = runtime, f"{runtime}, as int8"
        stored, content = expected, tflite_content(graph)
        expected = tflite_outputs(content, x, graph, lambda n: report(runtime, n, len(x)))
        original = Agreement.between(runtime, expected, f"{uint8}, the file", stored)
    ours, unchecked = _ours(as_installed(graph), x, reference_samples, report)
    comparisons = [Agreement.between(name, y, runtime, expected) for name, y in ours.items()]
    return Verdict(runtime, True, tuple(comparisons), unchecked, original, note)


def _compare_onnx(
    path: Path, graph: Graph, x: Array, reference_samples: int, report: Report
) -> Verdict:
    levels = {}
    for name, optimize in (("onnxruntime", False), ("onnxruntime, optimized", True)):
        parts = []
        for first in range(0, len(x), BLOCK):
            parts.append(onnxruntime_outputs(path, x[first : first + BLOCK], graph, optimize))
            report(name, min(first + BLOCK, len(x)), len(x))
        levels[name] = np.concatenate(parts)
    (plain, expected), (optimized, faster) = levels.items()
    comparisons = [Agreement.between(optimized, faster, plain, expected)]
    ours, unchecked = _ours(graph, x, reference_samples, report)
    for name, y in ours.items():
        comparisons += [
            Agreement.between(name, y, level, expected) for level, expected in levels.items()
        ]
    note = rounding_of(path)
    return Verdict("onnxruntime", False, tuple(comparisons), unchecked, note=note)


def _ours(
    graph: Graph, x: Array, reference_samples: int, report: Report
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Name → outputs of each way we have, and the ways we have not."""
    results: dict[str, Array] = {}
    name, output = graph.inputs[0], graph.outputs[0]
    parts = []
    for i, sample in enumerate(x[:reference_samples]):
        parts.append(interpret(graph, {name: sample[None]})[output])
        report("numpy reference", i + 1, reference_samples)
    if parts:
        results["numpy reference"] = np.concatenate(parts)
    unchecked = [f"output {n!r}: only the first output is compared" for n in graph.outputs[1:]]
    try:
        step = prepare(graph, "head")
    except (UnsupportedError, SchemeError) as error:
        return results, (*unchecked, f"the C: {error}")
    for title, portable in (("host C", False), ("portable C", True)):
        report(f"{title}: compiling", 0, len(x))
        simulator = step.simulator(portable=portable)
        parts = []
        for first in range(0, len(x), BLOCK):
            parts.append(simulator.infer(x[first : first + BLOCK]))
            report(title, min(first + BLOCK, len(x)), len(x))
        results[title] = np.concatenate(parts)
    return results, tuple(unchecked)
