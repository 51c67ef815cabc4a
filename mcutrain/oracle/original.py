"""Does the float graph compute what the file's own runtime does? Asked before it is quantized."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.formats.float_model import FloatModel
from mcutrain.oracle.run_original import NOT_INSTALLED, REFUSED
from mcutrain.quant.fake import LARGEST_DB, snr_db
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.quantizer import as_input

Array = npt.NDArray[Any]

SAMPLES = 4
SECONDS = 300
LEAST_DB = 60.0
"""Least agreement of float outputs: orders of summing give 100 dB, a wrong operator below 40."""
LEAST_HALF_DB = 30.0
"""Where it computes in 16 bits, of which 11 are significant, over tens of layers."""
LEAST_HYBRID_DB = 12.0
"""Where the file has int8 weights: its runtime rounds activations too, as it goes."""


def compare_with_original(model: FloatModel, samples: Array) -> str:
    """Run a few samples by onnxruntime or the TFLite interpreter and compare the outputs.

    Returns the signal to noise as a phrase, or why nothing was compared. Raises ModelError if the
    outputs differ.
    """
    path, graph = model.path, model.network
    x = np.asarray(as_input(graph, samples)[:SAMPLES], np.float32)
    runtime = "onnxruntime" if path.suffix.lower() == ".onnx" else "the TFLite interpreter"
    found = _original_outputs(path, _to_file(graph, x), runtime)
    if found is None:
        return (
            f"not compared with {runtime}, which is not installed: pip install 'mcutrain[oracle]'"
        )
    ours = graph.run(x)
    if len(found) != len(ours):
        raise ModelError(f"{path}: {runtime} gives {len(found)} outputs, mcutrain {len(ours)}")
    worst = LARGEST_DB
    for name, mine, theirs in zip(graph.outputs, ours, found, strict=True):
        stored = _from_file(graph, name, theirs)
        if stored.shape != mine.shape:
            raise ModelError(
                f"{path}: output {name!r} is {mine.shape}, by {runtime} {stored.shape}"
            )
        worst = min(worst, snr_db(stored, mine))
    least = LEAST_HALF_DB if graph.is_half else LEAST_DB
    least = LEAST_HYBRID_DB if model.rounds_weights else least
    if not worst >= least:
        raise ModelError(
            f"{path}: mcutrain reads the model as another function than {runtime} ({worst:.0f} dB "
            f"signal to noise, at least {least:.0f} are needed); please report it with the model"
        )
    return f"{worst:.0f} dB to {runtime}"


def _original_outputs(path: Path, x: Array, runtime: str) -> list[Array] | None:
    """The outputs in the file's own layout; None where there is no runtime."""
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        inputs, outputs = Path(folder) / "x.npy", Path(folder) / "y.npz"
        np.save(inputs, x)
        command = [sys.executable, "-m", "mcutrain.oracle.run_original"]
        try:
            done = subprocess.run(
                [*command, str(path), str(inputs), str(outputs)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ModelError(f"{path}: {runtime} takes more than {SECONDS} seconds") from error
        if done.returncode == NOT_INSTALLED:
            return None
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] if done.returncode == REFUSED else []
            raise ModelError(f"{path}: {runtime} {_refusal(reason)}")
        with np.load(outputs) as stored:
            return [stored[name] for name in stored.files]


def _refusal(reason: list[str]) -> str:
    return f"refuses the model: {reason[0]}" if reason else "crashes on the model; is it damaged?"


def _to_file(graph: FloatGraph, x: Array) -> Array:
    """Samples in the file's layout, without its batch axis."""
    axes = graph.file_axes.get(graph.input)
    return x if axes is None else np.ascontiguousarray(x.transpose(axes))


def _from_file(graph: FloatGraph, name: str, y: Array) -> Array:
    """An output in ours: [n, …]."""
    axes, shape = graph.file_axes.get(name), graph.shapes[name]
    if axes is None:
        return y.reshape(len(y), *shape[1:])
    there = tuple(shape[i] for i in axes)
    ours: Array = y.reshape(len(y), *there[1:]).transpose(np.argsort(axes))
    return ours
