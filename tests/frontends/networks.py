"""Small networks that take features of sound."""

from __future__ import annotations

import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcutrain.frontends import Frontend, parse
from mcutrain.frontends.images import ImageFrontend
from mcutrain.functions.preparing import with_frontend
from mcutrain.ir.graph import Graph
from tests.simulation.networks import Network, same

SCALE, ZERO_POINT = 7 / 64, -128
MFCC_SCALE, MFCC_ZERO_POINT = 0.5847029089927673, 83
"""The input of kws_ref_model."""


def listener(
    frames: int = 6,
    classes: int = 3,
    frontend: str = "audio:step_ms=20",
    width: int = 40,
    scale: float = SCALE,
    zero_point: int = ZERO_POINT,
) -> Graph:
    """Tells windows apart by so many frames of features."""
    net = Network((frames, width, 1), 1)
    x = net.tensors[net.x]
    net.tensors[net.x] = replace(x, type=replace(x.type, scales=(scale,), zero_point=zero_point))
    y = net.conv(net.conv(net.x, 4, same(3, 2), relu=True), 6, same(3, 2), relu=True)
    y = net.conv(net.mean(y), classes, rounds_once=True)
    graph = net.graph(net.reshape(y, (1, classes)), "listener")
    return with_frontend(graph, frontend)


def keyword_listener(frames: int = 6, classes: int = 3, frontend: str = "mfcc") -> Graph:
    """The same by MFCCs."""
    return listener(frames, classes, frontend, 10, MFCC_SCALE, MFCC_ZERO_POINT)


def gestures(front: Frontend, classes: int = 3) -> Graph:
    """Tells windows of a motion sensor apart."""
    frames, width = front.output_shape
    return listener(frames, classes, front.text, width, 1 / 16, 0)


def viewer(
    text: str,
    shape: tuple[int, int, int] = (12, 10, 1),
    classes: int = 3,
    scale: float = 1 / 250,
    zero_point: int = -127,
) -> Graph:
    """Tells images of a camera apart."""
    net = Network(shape, 1)
    x = net.tensors[net.x]
    net.tensors[net.x] = replace(x, type=replace(x.type, scales=(scale,), zero_point=zero_point))
    y = net.conv(net.conv(net.x, 4, same(3, 2), relu=True), 6, same(3, 2), relu=True)
    y = net.conv(net.mean(y), classes, rounds_once=True)
    return with_frontend(net.graph(net.reshape(y, (1, classes)), "viewer"), text)


def network_of(text: str, frames: int) -> Graph:
    """Takes what a front end makes; `frames` where audio or mfcc does not say how many."""
    usual = {"audio": listener, "mfcc": keyword_listener}.get(text.partition(":")[0])
    if usual is not None:
        return usual(frames, frontend=text)
    front = parse(text)
    return viewer(text, front.image) if isinstance(front, ImageFrontend) else gestures(front)


ROWS = "motion:gravity=4,magnitude=3,mult=3,shift=2,unit=4096,axes=3"
FEATURES = "motion:axes=2,window=24,step=10,mean=1,rms=1,crossings=1,bands=3,unit=256"


def _moved(text: str) -> Callable[[int], Graph]:
    return lambda frames: gestures(parse(f"{text},frames={frames}"))


KINDS: dict[str, Callable[[int], Graph]] = {
    "audio": listener,
    "mfcc": keyword_listener,
    "rows": _moved(ROWS),
    "features": _moved(FEATURES),
}
"""A network for each kind of front end, by frames of its windows."""


def float_file(path: Path, frames: int = 49, classes: int = 3) -> Path:
    """An .onnx file (1, 1, frames, 40): a convolution over some bands, a mean, a head."""
    random = np.random.default_rng(3)
    values = {
        "w": random.normal(0, 0.2, (6, 1, 3, 5)),
        "b": random.normal(0, 1, 6),
        "v": random.normal(0, 0.5, (classes, 6, 1, 1)),
        "c": np.zeros(classes),
    }
    return _saved(path, values, (1, 1, frames, 40), classes)


def _saved(
    path: Path,
    values: dict[str, npt.NDArray[np.float64]],
    shape: tuple[int, ...],
    classes: int,
) -> Path:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], strides=[2, 4]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["m"]),
        helper.make_node("Conv", ["m", "v", "c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, classes))
    constants = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in values.items()]
    graph = helper.make_graph(nodes, "sounds", [x], [y], constants)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def float_images(path: Path, classes: int = 2) -> Path:
    """An .onnx file (1, 3, 12, 10): a convolution, a mean, a head."""
    random = np.random.default_rng(4)
    values = {
        "w": random.normal(0, 0.3, (6, 3, 3, 3)),
        "b": random.normal(0, 0.1, 6),
        "v": random.normal(0, 0.5, (classes, 6, 1, 1)),
        "c": np.zeros(classes),
    }
    return _saved(path, values, (1, 3, 12, 10), classes)


def sound_folder(root: Path, count: int = 8, seed: int = 0) -> Path:
    """A second of a low, a middle and a high tone in noise, each a class of `count` files."""
    random, time = np.random.default_rng(seed), np.arange(16_000) / 16_000
    for name, hertz in (("high", 3000), ("low", 300), ("middle", 1000)):
        (root / name).mkdir(parents=True)
        for i in range(count):
            tone = np.sin(2 * np.pi * hertz * time * random.uniform(0.9, 1.1))
            x = random.uniform(500, 12_000) * tone + random.normal(0, 100, len(time))
            write_wav(root / name / f"{i}.wav", x.astype(np.int16))
    return root


def write_wav(
    path: Path, x: npt.NDArray[np.int16], rate_hz: int = 16_000, channels: int = 1
) -> None:
    """16-bit PCM."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(x.astype("<i2").tobytes())
