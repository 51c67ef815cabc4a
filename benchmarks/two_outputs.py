"""A network with two outputs, a box and a class, before and after training, and in float beside it.

    .venv/bin/python benchmarks/two_outputs.py

Squares, discs and crosses, drawn by numpy, one in each image. A small convolutional network is
trained in float (numpy) on bright shapes, quantized, and then trained on dark ones before stripes,
by mcutrain in integers and by the same float network: sample by sample, as many epochs. Boxes are
learnt by Huber's loss, classes by softmax. Three seeds, of the new images and their order.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper, save

import mcutrain
from mcutrain.formats.outputs import choosing
from mcutrain.pipeline import StepOptions, prepare

Array = npt.NDArray[Any]
SIZE, SHAPES, CHANNELS = 24, 3, (1, 8, 16, 32)
FIRST, NEW, TESTED, EPOCHS, SEEDS = 2000, 400, 400, 8, (1, 2, 3)
LOSSES = "boxes=huber:2,classes=cross-entropy"
HUBER, WEIGHT, UNIT = 0.5, 2.0, 4
"""Boxes are learnt in quarters of the image: about the unit in which integers learn them."""


def drawn(count: int, seed: int, *, is_new: bool) -> tuple[Array, Array, Array]:
    """Images in 0 to 1, boxes (centre, width, height, in quarters of it), and classes."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE]
    images, boxes = np.empty((count, SIZE, SIZE, 1), np.float32), np.empty((count, 4), np.float32)
    classes = random.integers(0, SHAPES, count)
    for i, shape in enumerate(classes):
        w = h = random.integers(7, 15)
        cx, cy = (random.integers(s // 2, SIZE - s // 2) for s in (w, h))
        dx, dy = np.abs(x - cx), np.abs(y - cy)
        inside = (dx <= w // 2) & (dy <= h // 2)
        if shape == 1:
            inside = dx**2 + dy**2 <= (w // 2) ** 2
        if shape == 2:
            inside &= (dx <= 1) | (dy <= 1)
        back, front = (0.8, 0.2) if is_new else (0.2, 0.8)
        stripes = 0.15 * np.sin(x * random.uniform(0.3, 1) + random.uniform(0, 6)) * is_new
        image = np.where(inside, front, back + stripes) + random.normal(0, 0.05, (SIZE, SIZE))
        images[i, ..., 0] = np.clip(image, 0, 1)
        boxes[i] = UNIT * np.array([cx, cy, w, h]) / SIZE
    return images, boxes, classes


def iou(a: Array, b: Array) -> float:
    """Mean intersection over union of boxes (centre, width, height)."""
    low = [box[:, :2] - box[:, 2:] / 2 for box in (a, b)]
    high = [box[:, :2] + box[:, 2:] / 2 for box in (a, b)]
    inner = np.clip(np.minimum(*high) - np.maximum(*low), 0, None).prod(axis=1)
    areas = sum(np.clip(box[:, 2:], 0, None).prod(axis=1) for box in (a, b))
    return float((inner / (areas - inner)).mean())


class Floats:
    """Three convolutions of stride 2 with ReLU, two dense heads: float32, by numpy."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        shapes = [(o, 9 * i) for i, o in pairwise(CHANNELS)]
        flat = (SIZE // 8) ** 2 * CHANNELS[-1]
        shapes += [(4, flat), (SHAPES, flat)]
        self.w = [random.normal(0, np.sqrt(2 / s[1]), s).astype(np.float32) for s in shapes]
        self.b = [np.zeros(s[0], np.float32) for s in shapes]

    def forward(self, x: Array) -> tuple[list[Array], list[Array], Array, Array]:
        """What layers read (patches of convolutions), what convolutions gave, boxes and logits."""
        read, made = [], []
        for w, b in zip(self.w[:3], self.b[:3], strict=True):
            padded = np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
            views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
            read.append(np.moveaxis(views, 3, -1).reshape(*views.shape[:3], -1))
            x = np.maximum(read[-1] @ w.T + b, 0)
            made.append(x)
        read.append(x.reshape(len(x), -1))
        boxes, logits = (read[-1] @ w.T + b for w, b in zip(self.w[3:], self.b[3:], strict=True))
        return read, made, boxes, logits

    def step(self, x: Array, wanted: Array, label: Array, rate: float, last: int = 0) -> None:
        """SGD on a batch. last: how many convolutions stay as they are."""
        read, made, boxes, logits = self.forward(x)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(x)), label] -= 1
        slope = np.clip(boxes - wanted, -HUBER, HUBER) * 2 * WEIGHT / 4
        dx = slope @ self.w[3] + shares @ self.w[4]
        for i, dy in ((3, slope), (4, shares)):
            self.w[i] -= rate / len(x) * dy.T @ read[3]
            self.b[i] -= rate / len(x) * dy.sum(axis=0)
        for i in range(2, last - 1, -1):
            size = SIZE // 2 ** (i + 1)
            dy = dx.reshape(made[i].shape) * (made[i] > 0)
            flat = dy.reshape(-1, dy.shape[-1])
            if i > last:
                dp = (dy @ self.w[i]).reshape(*dy.shape[:3], 3, 3, CHANNELS[i])
                dx = np.zeros((len(x), 2 * size + 1, 2 * size + 1, CHANNELS[i]), np.float32)
                for r in range(3):
                    for c in range(3):
                        dx[:, r : r + 2 * size : 2, c : c + 2 * size : 2] += dp[:, :, :, r, c]
                dx = dx[:, :-1, :-1]
            self.w[i] -= rate / len(x) * flat.T @ read[i].reshape(len(flat), -1)
            self.b[i] -= rate / len(x) * flat.sum(axis=0)

    def train(self, data: tuple[Array, Array, Array], epochs: int, rate: float, batch: int) -> None:
        """Epochs in an order of their own."""
        random = np.random.default_rng(0)
        for _ in range(epochs):
            order = random.permutation(len(data[0]))
            for first in range(0, len(order), batch):
                self.step(*(part[order[first : first + batch]] for part in data), rate)

    def scores(self, data: tuple[Array, Array, Array]) -> tuple[float, ...]:
        """As scored has them."""
        _, _, boxes, logits = self.forward(data[0])
        return scored(boxes, logits, data)

    def copy(self) -> Floats:
        """One that learns by itself."""
        found = Floats(0)
        found.w, found.b = [w.copy() for w in self.w], [b.copy() for b in self.b]
        return found

    def write(self, path: Path) -> None:
        """As a float .onnx file with the outputs boxes and classes."""
        nodes, x = [], "x"
        constants = [numpy_helper.from_array(np.array([1, -1], np.int64), "flat")]
        for i, (w, b) in enumerate(zip(self.w, self.b, strict=True)):
            if i < 3:
                w = w.reshape(len(w), 3, 3, CHANNELS[i]).transpose(0, 3, 1, 2)
            else:  # ONNX has channels before positions
                side = SIZE // 8
                w = w.reshape(len(w), side, side, -1).transpose(0, 3, 1, 2).reshape(len(w), -1)
            constants += [numpy_helper.from_array(np.ascontiguousarray(w), f"w{i}")]
            constants += [numpy_helper.from_array(b, f"b{i}")]
            if i < 3:
                at = {"pads": [0, 0, 1, 1], "strides": [2, 2], "kernel_shape": [3, 3]}
                nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], **at))
                nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
                x = f"r{i}"
        nodes.append(helper.make_node("Reshape", [x, "flat"], ["f"]))
        nodes.append(helper.make_node("Gemm", ["f", "w3", "b3"], ["boxes"], transB=1))
        nodes.append(helper.make_node("Gemm", ["f", "w4", "b4"], ["logits"], transB=1))
        nodes.append(helper.make_node("Softmax", ["logits"], ["classes"], axis=1))
        shaped = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes,
            "detector",
            [shaped("x", TensorProto.FLOAT, [1, 1, SIZE, SIZE])],
            [shaped(n, TensorProto.FLOAT, [1, k]) for n, k in (("boxes", 4), ("classes", SHAPES))],
            constants,
        )
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def scored(boxes: Array, logits: Array, data: tuple[Array, Array, Array]) -> tuple[float, ...]:
    """MAE of boxes as shares of the image, their IoU, accuracy of classes."""
    right = float((logits.argmax(axis=1) == data[2]).mean())
    return float(np.abs(boxes - data[1]).mean()) / UNIT, iou(boxes, data[1]), right


def in_integers(
    model: Path, scheme: str, train: Any, test: Any, folder: Path, seed: int, bits: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Scores before and after, by mcutrain."""
    names = ("x", "boxes", "classes")
    arrays = {f"{name}_train": part for name, part in zip(names, train, strict=True)}
    arrays |= {f"{name}_test": part for name, part in zip(names, test, strict=True)}
    np.savez(folder / "new.npz", **arrays)
    with warnings.catch_warnings(), choosing("boxes,classes"):
        warnings.simplefilter("ignore")
        options = {"losses": LOSSES, "gradient_dtype": bits}
        found = mcutrain.simulate(
            model, folder / "new.npz", scheme, epochs=EPOCHS, seed=seed, **options
        )
        step = prepare(model, scheme, StepOptions(**options))
        simulator = step.simulator()
        codes = mcutrain.load(model)
    x = codes.tensors[codes.inputs[0]].type
    x_test = np.clip(np.rint(test[0] / x.scale) + x.zero_point, -128, 127).astype(np.int8)
    parts, scores = step.recipe.options.targets, []
    for saved in (None, found.saved):
        if saved is not None:
            simulator.load(saved)
        y = simulator.infer(x_test)
        (boxes, own), (_, classes) = parts.of_parts(y.reshape(len(y), -1), outputs=True)
        scores.append(scored(boxes.targets.outputs(own), classes, test))
    return scores[0], scores[1]


def line(title: str, found: list[tuple[float, ...]]) -> None:
    """A row of the table: means, the least and the most."""
    values = np.array(found)
    cells = []
    for k, form in enumerate(("{:.4f}", "{:.1f}", "{:.1f}")):
        column = values[:, k] * (1 if k == 0 else 100)
        low, high = (form.format(n) for n in (column.min(), column.max()))
        cells.append(f"{form.format(column.mean())} ({low} to {high})")
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    floats, old = Floats(0), drawn(FIRST, 0, is_new=False)
    floats.train(old, 30, 0.05, 16)
    known = drawn(TESTED, 99, is_new=False)
    print("bright, float: MAE {:.4f}, IoU {:.3f}, right {:.3f}".format(*floats.scores(known)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floats.write(folder / "detector.onnx")
        model = folder / "detector.int8.onnx"
        calibration = np.concatenate([old[0][:100], drawn(100, 98, is_new=True)[0]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mcutrain.quantize(folder / "detector.onnx", calibration, model)
        print("| trained | box MAE | IoU, % | classes right, % |\n|---|---|---|---|")
        splits = [(drawn(NEW, s, is_new=True), drawn(TESTED, 50 + s, is_new=True)) for s in SEEDS]
        line("nothing, float", [floats.scores(test) for _, test in splits])
        rates = {}
        for rate in (0.01, 0.03, 0.1):
            found = []
            for train, test in splits:
                one = floats.copy()
                one.train(train, EPOCHS, rate, 1)
                found.append(one.scores(test))
            rates[rate] = found
        best = max(rates, key=lambda rate: np.mean(rates[rate], axis=0)[1:].sum())
        is_first = True
        for bits in ("int8", "int16"):
            for scheme in ("head", "last:1", "full"):
                found = [
                    in_integers(model, scheme, *split, folder, seed, bits)
                    for seed, split in zip(SEEDS, splits, strict=True)
                ]
                if is_first:
                    line("nothing, int8", [before for before, _ in found])
                    is_first = False
                line(f"`{scheme}`, gradients of {bits}", [after for _, after in found])
        line(f"all, float, rate {best:g}", rates[best])


if __name__ == "__main__":
    main()
