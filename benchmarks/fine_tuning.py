"""Fine-tuning in the device's integers beside the same fine-tuning in float, by PyTorch.

    .venv/bin/python benchmarks/fine_tuning.py --shared ../shared --torch PYTHON   # that has torch

Networks trained on ImageNet learn the ten classes of cifar10_10k2k.npz: a new head, the layers of a
scheme, batch 1, plain SGD, the first 4,000 training images, enlarged to 128x128, random flips, 4
epochs, cosine with 10 % warm-up, all 2,000 test images. Both begin with the same weights (the
integers times their scales) and see the same samples in the same order at the same schedule. Float
has no rounding and no limits but ReLU6's. Each chooses its rate out of seven by itself, as the best
on the images 3,000 to 3,999 after an epoch on the first 2,000. Accuracy in %: the mean of the
seeds and its standard error, and those of the differences with the same seed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DATA = "data/cifar10_10k2k.npz"
MODELS = ("mcunet-5fps", "mbv2-w0.35")
SCHEMES = ("last:6", "full")
BASE_RATE = 0.1 / 256
FACTORS = (0.25, 0.5, 1, 2, 4, 8, 16)
EPOCHS = 4
SAMPLES, SEARCHED, HELD_OUT = 4000, 2000, 1000
FILES = ("x", "labels", "rates", "test_x", "test_labels")


def main() -> None:
    """Print a table, or with --child the accuracy of one run in float."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch, onnx")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--schemes", nargs="+", default=SCHEMES)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(trained_in_float(options.child, options.schemes[0])))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    table = Table("network", "scheme", "int8", "float", "difference", "rates times 0.1/256")
    for model in options.models:
        for scheme in options.schemes:
            table.add_row(model, scheme, *row(options, model, scheme))
            console.print(table)


def row(options: argparse.Namespace, model: str, scheme: str) -> Sequence[str]:
    """The cells of a network and a scheme."""
    chosen: dict[str, float] = {}
    for way in ("int8", "float"):
        found = {
            factor: accuracies(options, model, scheme, 1000, factor, (way,), search=True)[way]
            for factor in FACTORS
        }
        print(model, scheme, way, found, file=sys.stderr)
        chosen[way] = max(found, key=found.__getitem__)
    results: dict[str, list[float]] = {way: [] for way in chosen}
    for seed in range(options.seeds):
        for way, factor in chosen.items():
            found = accuracies(options, model, scheme, seed, factor, (way,), search=False)
            results[way].append(100 * found[way])
            print(model, scheme, seed, way, found, file=sys.stderr)
    int8, in_float = (np.array(results[way]) for way in chosen)
    rates = ", ".join(f"{way} {factor:g}" for way, factor in chosen.items())
    return (*map(mean, (int8, in_float, int8 - in_float)), rates)


def mean(values: Array) -> str:
    """And its standard error."""
    return f"{values.mean():.2f} ± {values.std(ddof=1) / len(values) ** 0.5:.2f}"


def accuracies(
    options: argparse.Namespace,
    model: str,
    scheme: str,
    seed: int,
    factor: float,
    ways: Sequence[str],
    *,
    search: bool,
) -> Mapping[str, float]:
    """Train at the rate BASE_RATE * factor in each way; return the accuracies."""
    from mcutrain import data, prepare
    from mcutrain.formats.onnx.write import write_onnx
    from mcutrain.simulation import Run, RunSettings, Samples

    path = Path(options.shared) / f"models/{model}.int8.tflite"
    step = prepare(path, scheme, classes=10, head_seed=seed)
    split = data.load(Path(options.shared) / DATA)
    train = split.train.subset(SAMPLES)
    split = data.Split(train, split.test)
    if search:
        split = data.Split(train.subset(SEARCHED), train.part(SAMPLES - HELD_OUT, SAMPLES))
    epochs = 1 if search else EPOCHS
    settings = RunSettings(epochs, BASE_RATE * factor, seed=seed, flip=True, test_every=0)
    x = step.input_type
    samples = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    run = Run(step.simulator(seed=seed + 1), samples, settings)
    found = {}
    if "int8" in ways:
        found["int8"] = run.train().epochs[-1].test_accuracy or 0.0
    if "float" in ways:
        with tempfile.TemporaryDirectory() as folder:
            if said := write_onnx(step.graph, Path(folder) / "model.onnx"):
                print(said, file=sys.stderr)
            write_course(Path(folder), run)
            command = [options.torch, __file__, "--child", folder, "--schemes", scheme]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found["float"] = float(json.loads(done.stdout))
    return found


def write_course(folder: Path, run: Any) -> None:
    """All that the run sees, in order, for the child."""
    course, test = run.course, run.course.samples.split.test
    order = [course.indices(first, course.epoch_steps) for first in
             range(0, course.total, course.epoch_steps)]  # fmt: skip
    seed = course.settings.seed
    x = np.lib.format.open_memmap(
        folder / "x.npy", "w+", np.int8, (course.total, *course.at(0)[0].shape)
    )
    for k, (index, epoch) in enumerate(order):
        for first in range(0, len(index), 100):
            some = slice(first, first + 100)
            begin = k * course.epoch_steps + first
            x[begin : begin + 100] = course.samples.train(index[some], epoch, seed)
    labels = np.concatenate([course.samples.split.train.y[index] for index, _ in order])
    np.save(folder / "labels.npy", labels)
    rates = [course.rates.at(step).value for step in range(course.total)]
    np.save(folder / "rates.npy", np.array(rates))
    np.save(folder / "test_x.npy", course.samples.test(0, len(test)))
    np.save(folder / "test_labels.npy", test.y)


def trained_in_float(folder: Path, scheme: str) -> float:
    """The accuracy on the test samples after all steps of a course."""
    import torch

    torch.set_num_threads(1)
    x, labels, rates, test_x, test_labels = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in FILES
    )
    network = Network(folder / "model.onnx", scheme)
    sgd = torch.optim.SGD(network.trained, lr=0.0)
    for i, rate in enumerate(rates):
        sgd.param_groups[0]["lr"] = float(rate)
        sgd.zero_grad()
        label = torch.tensor([int(labels[i])])
        torch.nn.functional.cross_entropy(network(x[i : i + 1]), label).backward()
        sgd.step()
    with torch.inference_mode():
        found = [
            int(network(test_x[i : i + 1]).argmax()) == int(test_labels[i])
            for i in range(len(test_x))
        ]
    return sum(found) / len(found)


class Network:
    """A model of convolutions, sums and pools that write_onnx has written, in float.

    An activation with the zero point -128 is ReLU6's; other activations have no limits.
    """

    def __init__(self, path: Path, scheme: str) -> None:
        import onnx
        import torch

        graph = onnx.load(path).graph
        constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        self.input, self.output = graph.input[0].name, graph.output[0].name
        self.values, self.nodes, self.zero_points, layers = {}, [], {}, []
        for node in graph.node:
            if node.op_type == "DequantizeLinear" and node.input[0] in constants:
                codes, scale, zero = (constants[name] for name in node.input)
                shape = (-1, *(1,) * (codes.ndim - 1)) if scale.ndim else ()
                real = (codes.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)
                self.values[node.output[0]] = torch.tensor(real, dtype=torch.float32)
                continue
            if node.op_type == "QuantizeLinear":
                self.zero_points[node.output[0]] = constants[node.input[2]].item()
            if node.op_type == "Conv":
                layers.append(node.input[1:])
            settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            self.nodes.append((node.op_type, list(node.input), node.output[0], settings))
        kept = layers if scheme == "full" else layers[-int(scheme.split(":")[1]) - 1 :]
        self.trained = [self.values[name].requires_grad_() for layer in kept for name in layer]
        first = next(n for n in graph.node if n.op_type == "QuantizeLinear")
        self.scale, self.zero = (constants[name].item() for name in first.input[1:])

    def __call__(self, x: Array) -> Any:
        """Logits of an int8 sample [1, h, w, c]."""
        import torch

        real = (torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float32)) - self.zero) * self.scale
        values = {**self.values, self.input: real}
        for op_type, inputs, output, settings in self.nodes:
            values[output] = self._of(op_type, [values[n] for n in inputs if n in values], output,
                                      settings)  # fmt: skip
        return values[self.output].flatten(1)

    def _of(self, op_type: str, x: Sequence[Any], output: str, settings: Mapping[str, Any]) -> Any:
        import torch.nn.functional as of

        if op_type == "QuantizeLinear":
            return x[0].clamp(0, 6) if self.zero_points[output] == -128 else x[0]
        if op_type == "DequantizeLinear":
            return x[0]
        if op_type == "Add":
            return x[0] + x[1]
        if op_type == "AveragePool":
            return x[0].mean((2, 3), keepdim=True)
        assert op_type == "Conv", op_type
        top, left, bottom, right = settings.get("pads", (0, 0, 0, 0))
        padded = of.pad(x[0], (left, right, top, bottom))
        return of.conv2d(padded, *x[1:], settings.get("strides", 1), 0, 1, settings.get("group", 1))


if __name__ == "__main__":
    main()
