"""Streaming keyword networks as int8 .tflite by TensorFlow's converter, and their steps compared.

    pip install "tensorflow-cpu"                       # in an environment of its own
    python benchmarks/export_streaming.py write nets   # there
    python benchmarks/export_streaming.py check nets   # with mcutrain and ai-edge-litert

As microWakeWord's MixedNet: a convolution over several rows, then depthwise ones of several lengths
with 1×1 convolutions between them, and a classifier of the last rows. Weights are random. --steps:
how many are compared, by numpy, by the generated C and by the interpreter.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = 40
CHANNELS = 16
CALIBRATED = 300
LARGEST = 26.0  # of microWakeWord's features

Array = Any


def write(folder: Path) -> None:
    """Networks that take 1, 2 and 3 rows in a step, and one with shortcuts."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    layers = tf.keras.layers

    class Ring(layers.Layer):
        """The rows before the new ones, and these."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

        def build(self, shape: tuple[int, ...]) -> None:
            """Add the state."""
            shape = (1, self.rows, *shape[2:])
            self.state = self.add_weight(
                shape=shape, initializer="zeros", trainable=False, name="state"
            )

        def call(self, x: Array) -> Array:
            """Join, and keep the last rows."""
            memory = tf.concat([self.state, x], 1)
            self.state.assign(memory[:, -self.rows :])
            return memory

    def network(rows: int, kernels: tuple[tuple[int, ...], ...], with_shortcuts: bool) -> Any:
        x = start = layers.Input((rows, FEATURES), batch_size=1)
        x = layers.Reshape((rows, 1, FEATURES))(x)
        x = Ring(5 - rows)(x)
        x = layers.Conv2D(CHANNELS, (5, 1), strides=(rows, 1), activation="relu")(x)
        for lengths in kernels:
            most, each = max(lengths), CHANNELS // len(lengths)
            memory = Ring(most - 1)(x)
            parts = [
                layers.DepthwiseConv2D((n, 1))(memory[:, -n:, :, i * each : (i + 1) * each])
                for i, n in enumerate(lengths)
            ]
            y = parts[0] if len(parts) == 1 else layers.Concatenate()(parts)
            y = layers.BatchNormalization()(layers.Conv2D(CHANNELS, 1)(y))
            x = layers.ReLU()(y + x if with_shortcuts else y)
        x = layers.Flatten()(Ring(9)(x))
        return tf.keras.Model(start, layers.Dense(3, activation="softmax")(x))

    folder.mkdir(parents=True, exist_ok=True)
    for rows in (1, 2, 3):
        for with_shortcuts in (False, True):
            tf.keras.utils.set_random_seed(rows)
            model = network(rows, ((5,), (3, 7)), with_shortcuts)
            rng = np.random.default_rng(rows)
            samples = rng.uniform(0, LARGEST, (CALIBRATED, 1, rows, FEATURES)).astype(np.float32)
            with tempfile.TemporaryDirectory() as saved:
                model.export(saved, verbose=False)
                converter = tf.lite.TFLiteConverter.from_saved_model(saved)
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
                converter.representative_dataset = lambda samples=samples: ([s] for s in samples)
                converter.experimental_enable_resource_variables = True
                converter._experimental_variable_quantization = True
                converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
                converter.inference_input_type = tf.int8
                converter.inference_output_type = tf.uint8
                name = f"stream{rows}{'-shortcuts' if with_shortcuts else ''}.tflite"
                (folder / name).write_bytes(converter.convert())


def check(folder: Path, steps: int) -> None:
    """Print a table: how many steps differ from the interpreter's."""
    from mcutrain.formats import load
    from mcutrain.oracle.tflite import as_installed, interpreter
    from mcutrain.pipeline import prepare

    print("| model | rows of a step | window | rings, bytes | numpy differs | C differs |")
    print("|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.tflite")):
        graph = as_installed(load(path))
        step = prepare(graph, "last:1")
        module = interpreter().module
        made = module.Interpreter(
            model_path=str(path), experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
        )
        made.allocate_tensors()
        x, y = made.get_input_details()[0], made.get_output_details()[0]
        rng = np.random.default_rng(0)
        drawn = rng.integers(-128, 128, (steps, *x["shape"])).astype(np.int8)
        theirs = []
        for rows in drawn:
            made.set_tensor(x["index"], rows)
            made.invoke()
            theirs.append(made.get_tensor(y["index"]).astype(np.int64).ravel() - 128)
        ours = [one.steps(drawn).astype(np.int64) for one in (step.reference(), step.simulator())]
        different = [int((one != np.array(theirs)).any(axis=1).sum()) for one in ours]
        window = graph.tensors[graph.inputs[0]].type.shape[1]
        cells = (path.stem, graph.step_rows, window, step.plan.ring_bytes, *different)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["write", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "write":
        write(given.folder)
    else:
        check(given.folder, given.steps)


if __name__ == "__main__":
    main()
