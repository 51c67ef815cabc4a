"""Small networks that learn real targets, in int8 and beside it in float, over three seeds.

    python -m venv sk && sk/bin/pip install scikit-learn
    sk/bin/python benchmarks/regression.py --save diabetes.npz
    .venv/bin/python benchmarks/regression.py --diabetes diabetes.npz

A sine, as TensorFlow Lite Micro's hello_world learns it (1, 16, 16 and 1 units, 1,000 points with
noise), and scikit-learn's load_diabetes (10 features, 442 patients; 10, 32, 16 and 1 units; a fifth
is the test). The layers begin at random, by the seed; int8 and float with the same numbers. Float:
numpy, one sample at a time as the int8 network, with the same schedule, at the best of RATES on a
fifth of the training samples that is left out; then from all of them.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Layers = list[tuple[Array, Array]]
SEEDS = (1, 2, 3)
EPOCHS = {"sine": 40, "diabetes": 40}
UNITS = {"sine": (1, 16, 16, 1), "diabetes": (10, 32, 16, 1)}
RATES = (0.003, 0.01, 0.03, 0.1)
WARMUP = 0.1


def main() -> None:
    """Print the table, or save the data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path, help="write load_diabetes there, and end")
    parser.add_argument("--diabetes", type=Path)
    arguments = parser.parse_args()
    if arguments.save is not None:
        save(arguments.save)
        return
    print("| data | trained | loss | MAE before | after | R² before | after |")
    print("|---|---|---|---|---|---|---|")
    rows(sine, "sine")
    if arguments.diabetes is not None:
        with np.load(arguments.diabetes) as kept:
            x, y = kept["x"] * np.float32(20), kept["y"]
        rows(lambda seed: parted(x, y, seed), "diabetes")


def save(path: Path) -> None:
    """Write scikit-learn's data set as arrays."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    np.savez(path, x=found.data.astype(np.float32), y=found.target.astype(np.float32))


def sine(seed: int) -> tuple[Array, Array, Array, Array]:
    """Points of a sine with noise; the test has none."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2 * np.pi, (1000, 1)).astype(np.float32)
    y = (np.sin(x[:, 0]) + rng.normal(0, 0.1, len(x))).astype(np.float32)
    x_test = np.linspace(0, 2 * np.pi, 200, dtype=np.float32)[:, np.newaxis]
    return x, y, x_test, np.sin(x_test[:, 0])


def parted(x: Array, y: Array, seed: int) -> tuple[Array, Array, Array, Array]:
    """Four fifths to train on, and the others."""
    order = np.random.default_rng(seed).permutation(len(y))
    first, rest = order[len(y) // 5 :], order[: len(y) // 5]
    return x[first], y[first], x[rest], y[rest]


def rows(made: Any, name: str) -> None:
    """Print the rows of a data set."""
    parts = {seed: made(seed) for seed in SEEDS}
    starts = {seed: random_layers(UNITS[name], seed) for seed in SEEDS}
    in_order = [starts[s] for s in SEEDS], [parts[s] for s in SEEDS]
    show(name, "float, all", "mse", of_float(*in_order, EPOCHS[name]))
    for scheme, loss in (("full", "mse"), ("full", "huber"), ("full", "absolute"), ("head", "mse")):
        found = [of_int8(starts[s], parts[s], scheme, loss, EPOCHS[name], s) for s in SEEDS]
        show(name, f"int8, {'all' if scheme == 'full' else scheme}", loss, found)


def show(name: str, what: str, loss: str, found: Sequence[Sequence[float]]) -> None:
    """Print a row: means, and the least and the largest."""
    values = np.array(found, np.float64)
    cells = [
        f"{m:.3g} ({low:.3g} to {high:.3g})"
        for m, low, high in zip(values.mean(0), values.min(0), values.max(0), strict=True)
    ]
    print(f"| {name} | {what} | {loss} | {' | '.join(cells)} |", flush=True)


def random_layers(units: Sequence[int], seed: int) -> Layers:
    """He's start: uniform weights, biases of 0."""
    rng = np.random.default_rng(seed)
    found = []
    for n, m in itertools.pairwise(units):
        limit = np.sqrt(6 / n)
        w = rng.uniform(-limit, limit, (m, n)).astype(np.float32)
        found.append((w, rng.uniform(-limit, limit, m).astype(np.float32)))
    return found


# ---- float: all seeds and rates at once, by a first axis


def of_float(starts: Sequence[Layers], parts: Sequence[tuple[Array, ...]], epochs: int) -> Any:
    """MAE and R² before and after, of each seed at its best rate."""
    means = [float(y.mean()) for _, y, _, _ in parts]
    spans = [float(np.ptp(y)) / 4 for _, y, _, _ in parts]
    x = np.stack([part[0] for part in parts])
    z = np.stack([(p[1] - m) / s for p, m, s in zip(parts, means, spans, strict=True)])
    cut, count = x.shape[1] // 5, len(RATES)
    x_all, z_all = (np.repeat(a, count, axis=0) for a in (x, z))
    every = [start for start in starts for _ in RATES]
    rates = np.tile(RATES, len(starts))
    layers = trained(every, x_all[:, cut:], z_all[:, cut:], rates, epochs)
    losses = ((outputs(layers, x_all[:, :cut]) - z_all[:, :cut]) ** 2).mean(axis=1)
    best = np.array(RATES)[np.nanargmin(losses.reshape(-1, count), axis=1)]
    layers = trained(starts, x, z, best, epochs)
    found = outputs(layers, np.stack([part[2] for part in parts]))
    return [
        scores(np.full(len(p[3]), m), y * s + m, p[3])
        for p, m, s, y in zip(parts, means, spans, found, strict=True)
    ]


def outputs(layers: Layers, x: Array) -> Array:
    """Of the networks: [networks, samples] of x [networks, samples, features]."""
    for w, b in layers[:-1]:
        x = np.maximum(x @ w.swapaxes(1, 2) + b[:, np.newaxis], 0)
    w, b = layers[-1]
    found: Array = (x @ w.swapaxes(1, 2) + b[:, np.newaxis])[..., 0]
    return found


def trained(starts: Sequence[Layers], x: Array, z: Array, rates: Array, epochs: int) -> Layers:
    """By gradient descent on one sample at a time; the last layer begins at 0."""
    layers = [
        (np.stack(w), np.stack(b))
        for w, b in (zip(*parts, strict=True) for parts in zip(*starts, strict=True))
    ]
    layers[-1] = (np.zeros_like(layers[-1][0]), np.zeros_like(layers[-1][1]))
    total, step = epochs * x.shape[1], 0
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for _ in range(epochs):
            for i in rng.permutation(x.shape[1]):
                warm = WARMUP * total
                share = step / warm if step < warm else (step - warm) / (total - warm)
                now = share if step < warm else 0.5 * (1 + np.cos(np.pi * share))
                learn(layers, x[:, i], z[:, i], now * rates)
                step += 1
    return layers


def learn(layers: Layers, x: Array, z: Array, rates: Array) -> None:
    """Learn one sample of each network; the loss is the squared error."""
    values = [x]
    for w, b in layers[:-1]:
        values.append(np.maximum((w @ values[-1][..., np.newaxis])[..., 0] + b, 0))
    w, b = layers[-1]
    dy = 2 * ((w @ values[-1][..., np.newaxis])[..., 0] + b - z[:, np.newaxis])
    for place in range(len(layers) - 1, -1, -1):
        w, b = layers[place]
        dx = (dy[:, np.newaxis] @ w)[:, 0]
        w -= (rates[:, np.newaxis] * dy)[..., np.newaxis] * values[place][:, np.newaxis]
        b -= rates[:, np.newaxis] * dy
        dy = dx * (values[place] > 0)


def scores(before: Array, after: Array, y: Array) -> list[float]:
    """MAE before and after, R² before and after."""
    around = float(((y - y.mean()) ** 2).sum())
    maes = [float(np.abs(found - y).mean()) for found in (before, after)]
    return maes + [1 - float(((found - y) ** 2).sum()) / around for found in (before, after)]


# ---- int8


def of_int8(
    start: Layers, parts: tuple[Array, ...], scheme: str, loss: str, epochs: int, seed: int
) -> list[float]:
    """The same by mcutrain; the rate is the one that it finds."""
    import mcutrain

    x, y, x_test, y_test = parts
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        write(start, folder / "m.onnx")
        int8 = mcutrain.quantize(folder / "m.onnx", x).write(folder / "m.tflite")
        data = ((x, y), (x_test, y_test))
        found = mcutrain.simulate(
            int8, data, scheme, classes=1, loss=loss, epochs=epochs, seed=seed, test_every=0
        )
    return [found.mae_before, found.mae, found.r2_before, found.r2]


def write(layers: Layers, path: Path) -> None:
    """Write the layers as .onnx."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes, constants, y = [], [], "x"
    for i, (w, b) in enumerate(layers):
        names = [f"w{i}", f"b{i}"]
        constants += [numpy_helper.from_array(a, n) for a, n in zip((w, b), names, strict=True)]
        nodes.append(helper.make_node("Gemm", [y, *names], [f"y{i}"], transB=1))
        y = f"y{i}"
        if i < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [y], [f"r{i}"]))
            y = f"r{i}"
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, size])
        for n, size in (("x", layers[0][0].shape[1]), (y, len(layers[-1][0])))
    ]
    graph = helper.make_graph(nodes, "regression", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


if __name__ == "__main__":
    main()
