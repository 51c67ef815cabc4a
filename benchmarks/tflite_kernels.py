"""Runs an int8 .tflite with TFLite's reference, optimized and default kernels: who differs, where.

mcutrain computes what the reference kernels do (BUILTIN_REF). Default is what an interpreter uses
that is told nothing: on most computers XNNPACK's. The last column is the operator in which a
kernel first leaves the reference, given equal inputs, and the largest difference there, in steps
of the operator's output.

    benchmarks/tflite_kernels.py MODEL.tflite --data DATA.npz
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mcutrain.oracle.tflite import interpreter
from mcutrain.pipeline import load
from mcutrain.runs.sample_reading import load_data, model_input, prepare_samples
from mcutrain.simulation import RunSettings

Array = npt.NDArray[Any]

KERNELS = {
    "reference": "BUILTIN_REF",
    "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "default": "AUTO",
}
TRACED_SAMPLES = 50


def main() -> None:
    """Print one row for each set of kernels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=500, help="test samples at most")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*experimental_preserve_all_tensors")
    x, labels = _samples(given.model, given.data, given.samples)
    outputs = {name: _outputs(_interpreter(given.model, name), x) for name in KERNELS}
    columns = ("kernels", "samples", "differing", "largest", "other class", "accuracy", "first in")
    table = Table(*columns, box=SIMPLE_HEAD)
    for name, y in outputs.items():
        difference = np.abs(y.astype(int) - outputs["reference"])
        classes = [part.argmax(axis=1) for part in (y, outputs["reference"])]
        first = "" if name == "reference" else _first_differences(given.model, name, x)
        table.add_row(
            name,
            f"{len(x):,}",
            f"{100 * (difference > 0).mean():.2f} %",
            str(difference.max()),
            str((classes[0] != classes[1]).sum()),
            f"{100 * (classes[0] == labels).mean():.1f} %",
            first,
        )
    Console().print(table)


def _samples(model: Path, data: Path, count: int) -> tuple[Array, Array]:
    """Test samples as the model's int8 input, and their labels."""
    graph = load(model)
    samples = prepare_samples(load_data(graph, data), RunSettings(), model_input(graph))
    return samples.test(0, count), samples.split.test.y[:count]


def _interpreter(model: Path, kernels: str, *, keep: bool = False) -> Any:
    module = interpreter().module
    loaded = module.Interpreter(
        model_path=str(model),
        experimental_op_resolver_type=module.OpResolverType[KERNELS[kernels]],
        experimental_preserve_all_tensors=keep,
    )
    loaded.allocate_tensors()
    return loaded


def _invoke(loaded: Any, sample: Array) -> None:
    (detail,) = loaded.get_input_details()
    if detail["dtype"] != np.int8:
        raise SystemExit(f"the input is {np.dtype(detail['dtype'])}; give a model with int8 edges")
    loaded.set_tensor(detail["index"], sample.reshape(detail["shape"]))
    loaded.invoke()


def _outputs(loaded: Any, x: Array) -> Array:
    results = []
    for sample in x:
        _invoke(loaded, sample)
        results.append(loaded.get_tensor(loaded.get_output_details()[0]["index"]).ravel())
    return np.array(results)


def _first_differences(model: Path, kernels: str, x: Array) -> str:
    """Operators whose outputs differ though their inputs do not, with the largest difference."""
    pair = [_interpreter(model, name, keep=True) for name in ("reference", kernels)]
    largest: Counter[str] = Counter()
    for sample in x[:TRACED_SAMPLES]:
        for loaded in pair:
            _invoke(loaded, sample)
        for operator in pair[1]._get_ops_details():
            reads = [_difference(pair, i) for i in operator["inputs"] if i >= 0]
            if operator["op_name"] == "DELEGATE" or any(reads):
                continue
            found = max(_difference(pair, i) for i in operator["outputs"])
            largest[operator["op_name"]] = max(found, largest[operator["op_name"]])
    return ", ".join(f"{name} by {n}" for name, n in sorted(largest.items()) if n) or "none"


def _difference(pair: list[Any], tensor: int) -> int:
    try:
        found = [loaded.get_tensor(tensor).astype(int) for loaded in pair]
    except ValueError:
        return 0  # a delegate keeps it to itself
    return int(np.abs(found[0] - found[1]).max(initial=0))


if __name__ == "__main__":
    main()
