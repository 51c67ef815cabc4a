"""Make the files of the embedded demo: a small network, in float and int8, and real images.

    apt install dataset-fashion-mnist
    pip install torch numpy onnx ai-edge-litert
    python examples/fashion/pretrain.py                  # rewrites mcutrain/demo/fashion.*

The network is MobileNetV2-like (inverted residuals, `STEPS` below). It is trained in float on the
60,000 upright images of Fashion-MNIST's training split, its batch norms are folded, and it is
quantized after training to TFLite's int8 scheme: asymmetric activations per tensor, calibrated on
training images; symmetric weights per output channel (per tensor in the classifier); int32 biases
of scale s_x·s_w; fused ReLU6. Its input is the pixel itself: input = pixel - 128 (scale 1/255, zero
point -128). Its output is 10 int8 logits, without softmax.

The images of the demo come from the test split, which training and calibration never see.

Takes about a quarter of an hour on one core. The images come out the same every time (and the same
bytes, for one version of zlib). The network is the same bytes for one version of torch (here
2.13.0+cpu) on one kind of processor with one thread; another processor or thread count sums in
another order and gives a slightly different network.

Nothing here is imported when mcutrain runs.
"""

from __future__ import annotations

import argparse
import gzip
import io
import struct
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import torch
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.uint8]

REPOSITORY = Path(__file__).resolve().parents[2]
DATASET = Path("/usr/share/datasets/fashion-mnist")
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DESCRIPTION = (
    "mcutrain demo: MobileNetV2-like network for upright Fashion-MNIST, int8, "
    "input = pixel - 128, 10 logits. "
    "Trained by examples/fashion/pretrain.py."
)

INPUT_SIZE = 28
INPUT_SCALE = 1 / 255
INPUT_ZERO_POINT = -128
RELU6_MAX = 6.0
ADAPT_PER_CLASS = 400
TEST_PER_CLASS = 150
IMAGES_SEED = 2


# --------------------------------------------------------------------------------------------------
# The network, said once: training, calibration and the file all walk STEPS.


@dataclass(frozen=True)
class Step:
    """One operator. `kind` is conv, depthwise, add, mean or dense; `name` is also the name of its
    output tensor.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    in_channels: int
    out_channels: int
    kernel: int = 1
    stride: int = 1
    relu6: bool = False

    @property
    def is_convolution(self) -> bool:
        """True for dense and depthwise convolutions alike."""
        return self.kind in ("conv", "depthwise")


@dataclass(frozen=True)
class Block:
    """An inverted residual: expand (1x1), depthwise (3x3, stride), project (1x1), and add where
    the shapes allow.
    """

    hidden: int
    out_channels: int
    stride: int


STEM_CHANNELS = 8
BLOCKS = (
    Block(24, 16, 2),  # 28x28 -> 14x14
    Block(48, 16, 1),
    Block(48, 32, 2),  # 14x14 -> 7x7
    Block(96, 32, 1),
    Block(96, 32, 1),
    Block(128, 64, 2),  # 7x7 -> 4x4
    Block(192, 64, 1),
    Block(192, 64, 1),
)


def steps() -> Iterator[Step]:
    """The operators in execution order."""
    yield Step("conv", "stem", ("input",), 1, STEM_CHANNELS, kernel=3, relu6=True)
    below, channels = "stem", STEM_CHANNELS
    for number, block in enumerate(BLOCKS, start=1):
        name, hidden = f"block{number}", block.hidden
        yield Step("conv", f"{name}/expand", (below,), channels, hidden, relu6=True)
        yield Step(
            "depthwise",
            f"{name}/depthwise",
            (f"{name}/expand",),
            hidden,
            hidden,
            3,
            block.stride,
            relu6=True,
        )
        yield Step("conv", f"{name}/project", (f"{name}/depthwise",), hidden, block.out_channels)
        above = f"{name}/project"
        if block.stride == 1 and channels == block.out_channels:
            yield Step("add", f"{name}/add", (below, above), channels, channels)
            above = f"{name}/add"
        below, channels = above, block.out_channels
    yield Step("mean", "pool", (below,), channels, channels)
    yield Step("dense", "head", ("pool",), channels, len(CLASSES))


STEPS = tuple(steps())


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """TFLite's SAME padding before and after one axis; the odd one goes after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Network(nn.Module):
    """STEPS in float; `fold` turns it from its training form into its deployed one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict()
        self.norms = nn.ModuleDict()
        for step in STEPS:
            if step.is_convolution:
                groups = step.in_channels if step.kind == "depthwise" else 1
                self.layers[step.name] = nn.Conv2d(
                    step.in_channels,
                    step.out_channels,
                    step.kernel,
                    step.stride,
                    groups=groups,
                    bias=False,
                )
                self.norms[step.name] = nn.BatchNorm2d(step.out_channels)
            elif step.kind == "dense":
                self.layers[step.name] = nn.Linear(step.in_channels, step.out_channels)

    def tensors(self, pixels: Tensor) -> dict[str, Tensor]:
        """Every tensor by name. pixels: [n][1][28][28] in 0..1."""
        values = {"input": pixels}
        for step in STEPS:
            values[step.name] = self._run(step, [values[name] for name in step.inputs])
        return values

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits [n][10]."""
        return self.tensors(pixels)["head"]

    def fold(self) -> None:
        """Fold every batch norm into the convolution before it. It must be in eval mode."""
        for name, norm in self.norms.items():
            convolution = self.layers[name]
            assert isinstance(convolution, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            self.layers[name] = fuse_conv_bn_eval(convolution, norm)
        self.norms = nn.ModuleDict()

    def _run(self, step: Step, inputs: list[Tensor]) -> Tensor:
        if step.kind == "add":
            return inputs[0] + inputs[1]
        if step.kind == "mean":
            return inputs[0].mean(dim=(2, 3))
        x, layer = inputs[0], self.layers[step.name]
        if isinstance(layer, nn.Conv2d):
            before, after = same_padding(x.shape[-1], step.kernel, step.stride)
            if after > before:
                x = functional.pad(x, (0, after - before, 0, after - before))
            y = functional.conv2d(
                x, layer.weight, layer.bias, step.stride, before, groups=layer.groups
            )
        else:
            y = layer(x)
        if step.name in self.norms:
            y = self.norms[step.name](y)
        return functional.relu6(y, inplace=True) if step.relu6 else y


def count_macs() -> dict[str, int]:
    """Multiply-accumulates of every layer, by name."""
    macs, sizes = {}, {"input": INPUT_SIZE}
    for step in STEPS:
        size = -(-sizes[step.inputs[0]] // step.stride)
        sizes[step.name] = 1 if step.kind == "mean" else size
        if step.kind in ("conv", "dense"):
            macs[step.name] = (
                sizes[step.name] ** 2 * step.kernel**2 * step.in_channels * step.out_channels
            )
        elif step.kind == "depthwise":
            macs[step.name] = size**2 * step.kernel**2 * step.out_channels
    return macs


# --------------------------------------------------------------------------------------------------
# Data and training


def read_split(folder: Path, prefix: str) -> tuple[Images, Labels]:
    """Images [n][28][28] and labels [n] of the split `train` or `t10k` (IDX files, gzip)."""
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz") as file:
        _, count, height, width = struct.unpack(">4I", file.read(16))
        images = np.frombuffer(file.read(), np.uint8).reshape(count, height, width).copy()
    with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz") as file:
        file.read(8)
        labels = np.frombuffer(file.read(), np.uint8).copy()
    return images, labels


def to_pixels(images: Images) -> Tensor:
    """[n][28][28] uint8 -> [n][1][28][28] in 0..1, channels last in memory."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).unsqueeze(1).float() * INPUT_SCALE
    return pixels.contiguous(memory_format=torch.channels_last)


def augment(images: Images, rng: np.random.Generator, max_shift: int = 2) -> Images:
    """Each image flipped left to right with probability 1/2 and shifted by up to `max_shift`
    pixels.
    """
    count, size, _ = images.shape
    padded = np.pad(images, ((0, 0), (max_shift, max_shift), (max_shift, max_shift)))
    top, left = rng.integers(0, 2 * max_shift + 1, (2, count))
    rows = top[:, None] + np.arange(size)
    columns = left[:, None] + np.arange(size)
    flipped = rng.random(count) < 0.5
    columns[flipped] = columns[flipped, ::-1]
    shifted: Images = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return shifted


def train(network: Network, images: Images, labels: Labels, options: argparse.Namespace) -> None:
    """SGD with Nesterov momentum and a one-cycle learning rate."""
    rng = np.random.default_rng(options.seed)
    steps_per_epoch = len(images) // options.batch
    optimizer = torch.optim.SGD(
        network.parameters(), options.learning_rate, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, options.epochs * steps_per_epoch, pct_start=0.2
    )
    started = time.monotonic()
    network.train()
    for epoch in range(options.epochs):
        order = rng.permutation(len(images))[: steps_per_epoch * options.batch]
        correct = 0
        for number, chosen in enumerate(order.reshape(steps_per_epoch, options.batch), start=1):
            y = torch.from_numpy(labels[chosen].astype(np.int64))
            logits = network(to_pixels(augment(images[chosen], rng)))
            loss = functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            correct += int((logits.argmax(1) == y).sum())
            if number % 50 == 0 or number == steps_per_epoch:
                share = correct / (number * options.batch)
                seconds = time.monotonic() - started
                print(
                    f"\repoch {epoch + 1}/{options.epochs}  step {number}/{steps_per_epoch}  "
                    f"train accuracy {share:.2%}  {seconds:.0f} s",
                    end="",
                    flush=True,
                )
        print()


def onnx_model(network: Network) -> bytes:
    """The float network as PyTorch exports it, in eval mode, the batch norms not yet folded."""
    content = io.BytesIO()
    torch.onnx.export(
        network,
        (torch.zeros(1, 1, 28, 28),),
        content,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    return content.getvalue()


@torch.no_grad()
def float_accuracy(network: Network, images: Images, labels: Labels) -> float:
    """Top-1 accuracy of the float network."""
    network.eval()
    guesses = [network(to_pixels(part)).argmax(1).numpy() for part in np.array_split(images, 40)]
    return float(np.mean(np.concatenate(guesses) == labels))


# --------------------------------------------------------------------------------------------------
# Quantization


@dataclass(frozen=True)
class Scale:
    """real = scale · (integer - zero_point); one scale per channel of `axis`, or a single one."""

    scale: npt.NDArray[np.float32]
    zero_point: int = 0
    axis: int = 0


def activation_scale(low: float, high: float) -> Scale:
    """The int8 scale whose range holds low..high and represents 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / 255)
    return Scale(
        np.array([scale], np.float32), int(np.clip(round(-128 - low / float(scale)), -128, 127))
    )


@torch.no_grad()
def calibrate(network: Network, images: Images) -> dict[str, Scale]:
    """The scale of every activation, from the least and greatest value over `images`."""
    network.eval()
    scales = {
        name: activation_scale(float(value.min()), float(value.max()))
        for name, value in network.tensors(to_pixels(images)).items()
    }
    scales["input"] = Scale(np.array([INPUT_SCALE], np.float32), INPUT_ZERO_POINT)
    return scales


@dataclass(frozen=True)
class QuantizedLayer:
    """weight: conv [out][kh][kw][in], depthwise [1][kh][kw][channels], dense [out][in]; bias:
    int32 [out].
    """

    weight: npt.NDArray[np.int8]
    weight_scale: Scale
    bias: npt.NDArray[np.int32]
    bias_scale: Scale


def quantize_layer(step: Step, layer: nn.Module, x: Scale) -> QuantizedLayer:
    """Symmetric int8 weights and int32 biases of scale s_x·s_w."""
    weight = layer.get_parameter("weight").detach().numpy()
    bias = layer.get_parameter("bias").detach().numpy().astype(np.float64)
    axis = 0
    if step.kind == "conv":
        weight = weight.transpose(0, 2, 3, 1)
    elif step.kind == "depthwise":
        weight, axis = weight.transpose(1, 2, 3, 0), 3
    # Per-channel weights of a fully connected operator need TFLite 2.17; a single scale runs
    # everywhere.
    others = tuple(i for i in range(weight.ndim) if step.kind == "dense" or i != axis)
    largest = np.abs(weight).max(axis=others, keepdims=True)
    scale = (np.maximum(largest, 1e-8) / 127).astype(np.float32)
    bias_scale = (x.scale.astype(np.float64) * scale.ravel()).astype(np.float32)
    return QuantizedLayer(
        weight=np.clip(np.rint(weight / scale), -127, 127).astype(np.int8),
        weight_scale=Scale(scale.ravel(), axis=axis),
        bias=np.rint(bias / bias_scale).astype(np.int32),
        bias_scale=Scale(bias_scale),
    )


# --------------------------------------------------------------------------------------------------
# The .tflite file, through the object API of TFLite's schema

BUILTINS = {
    "conv": (
        schema.BuiltinOperator.CONV_2D,
        3,
    ),  # the version that first had int8 and per-channel weights
    "depthwise": (schema.BuiltinOperator.DEPTHWISE_CONV_2D, 3),
    "add": (schema.BuiltinOperator.ADD, 2),
    "mean": (schema.BuiltinOperator.MEAN, 2),
    "dense": (schema.BuiltinOperator.FULLY_CONNECTED, 4),
}


class ModelWriter:
    """Collects tensors and operators; `serialize` gives the file's bytes."""

    def __init__(self, description: str) -> None:
        self.graph = schema.SubGraphT()
        self.graph.name = "main"
        self.graph.tensors, self.graph.operators = [], []
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = description
        self.model.subgraphs = [self.graph]
        self.model.buffers = [schema.BufferT()]  # buffer 0 is the empty one by convention
        self.model.operatorCodes = []
        for code, version in BUILTINS.values():
            entry = schema.OperatorCodeT()
            entry.builtinCode = entry.deprecatedBuiltinCode = code
            entry.version = version
            self.model.operatorCodes.append(entry)
        self.index: dict[str, int] = {}

    def activation(self, name: str, shape: tuple[int, ...], scale: Scale) -> int:
        """Add a tensor that the network computes; returns its index."""
        return self._tensor(name, shape, schema.TensorType.INT8, scale, buffer=0)

    def constant(self, name: str, value: npt.NDArray[Any], scale: Scale | None = None) -> int:
        """Add an int8 or int32 tensor whose value is in the file; returns its index."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(
            np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes(), np.uint8
        )
        self.model.buffers.append(buffer)
        dtype = schema.TensorType.INT8 if value.dtype == np.int8 else schema.TensorType.INT32
        return self._tensor(name, value.shape, dtype, scale, buffer=len(self.model.buffers) - 1)

    def operator(self, step: Step, inputs: list[int]) -> None:
        """Add the operator of `step`; its output tensor must be there already."""
        operator = schema.OperatorT()
        operator.opcodeIndex = list(BUILTINS).index(step.kind)
        operator.inputs, operator.outputs = inputs, [self.index[step.name]]
        operator.builtinOptionsType, operator.builtinOptions = builtin_options(step)
        self.graph.operators.append(operator)

    def serialize(self, input_name: str, output_name: str) -> bytes:
        """The file's bytes, once all operators are added."""
        self.graph.inputs, self.graph.outputs = [self.index[input_name]], [self.index[output_name]]
        builder = flatbuffers.Builder(1 << 18)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(
        self, name: str, shape: tuple[int, ...], dtype: int, scale: Scale | None, buffer: int
    ) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), dtype, buffer
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = scale.scale.tolist()
            tensor.quantization.zeroPoint = [scale.zero_point] * len(scale.scale)
            tensor.quantization.quantizedDimension = scale.axis
        self.graph.tensors.append(tensor)
        self.index[name] = len(self.graph.tensors) - 1
        return self.index[name]


def builtin_options(step: Step) -> tuple[int, Any]:
    """The schema's options table of an operator, and that table's number in the union."""
    activation = (
        schema.ActivationFunctionType.RELU6 if step.relu6 else schema.ActivationFunctionType.NONE
    )
    kinds = schema.BuiltinOptions
    if step.kind == "mean":
        mean = schema.ReducerOptionsT()
        mean.keepDims = False
        return kinds.ReducerOptions, mean
    if step.is_convolution:
        depthwise = step.kind == "depthwise"
        options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
        options.padding = schema.Padding.SAME
        options.strideH = options.strideW = step.stride
        options.dilationHFactor = options.dilationWFactor = 1
        if depthwise:
            options.depthMultiplier = 1
        kind = kinds.DepthwiseConv2DOptions if depthwise else kinds.Conv2DOptions
    else:
        dense = step.kind == "dense"
        options = schema.FullyConnectedOptionsT() if dense else schema.AddOptionsT()
        kind = kinds.FullyConnectedOptions if dense else kinds.AddOptions
    options.fusedActivationFunction = activation
    return kind, options


def write_model(network: Network, scales: dict[str, Scale]) -> bytes:
    """The quantized network as the bytes of a .tflite file. The network must be folded."""
    writer = ModelWriter(DESCRIPTION)
    shapes: dict[str, tuple[int, ...]] = {"input": (1, INPUT_SIZE, INPUT_SIZE, 1)}
    writer.activation("input", shapes["input"], scales["input"])
    for step in STEPS:
        inputs = [writer.index[name] for name in step.inputs]
        if step.name in network.layers:
            layer = quantize_layer(step, network.layers[step.name], scales[step.inputs[0]])
            inputs.append(writer.constant(f"{step.name}/weight", layer.weight, layer.weight_scale))
            inputs.append(writer.constant(f"{step.name}/bias", layer.bias, layer.bias_scale))
        elif step.kind == "mean":
            inputs.append(writer.constant(f"{step.name}/axes", np.array([1, 2], np.int32)))
        size = -(-shapes[step.inputs[0]][1] // step.stride)
        flat = step.kind in ("mean", "dense")
        shapes[step.name] = (1, step.out_channels) if flat else (1, size, size, step.out_channels)
        writer.activation(step.name, shapes[step.name], scales[step.name])
        writer.operator(step, inputs)
    return writer.serialize("input", "head")


def int8_accuracy(model: bytes, images: Images, labels: Labels) -> float:
    """Top-1 accuracy through the interpreter's reference kernels."""
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    source = interpreter.get_input_details()[0]["index"]
    result = interpreter.get_output_details()[0]["index"]
    correct = 0
    for image, label in zip(images, labels, strict=True):
        interpreter.set_tensor(
            source, (image.astype(np.int16) - 128).astype(np.int8)[None, :, :, None]
        )
        interpreter.invoke()
        correct += int(interpreter.get_tensor(result)[0].argmax() == label)
    return correct / len(images)


# --------------------------------------------------------------------------------------------------
# The images of the demo


def demo_images(images: Images, labels: Labels) -> dict[str, npt.NDArray[Any]]:
    """A seeded, class-balanced choice: ADAPT_PER_CLASS to train on, TEST_PER_CLASS others to test
    on.
    """
    rng = np.random.default_rng(IMAGES_SEED)
    shuffled = [rng.permutation(np.flatnonzero(labels == number)) for number in range(len(CLASSES))]
    chosen = {
        "train": np.concatenate([members[:ADAPT_PER_CLASS] for members in shuffled]),
        "test": np.concatenate(
            [members[ADAPT_PER_CLASS:][:TEST_PER_CLASS] for members in shuffled]
        ),
    }
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, members in chosen.items():
        order = rng.permutation(members)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = images[order], labels[order]
    arrays["names"] = np.array(CLASSES)
    return arrays


def pack_npz(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """What numpy.savez_compressed writes, but with a fixed date, so that equal arrays give equal
    bytes.
    """
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        for name, array in arrays.items():
            array_bytes = io.BytesIO()
            np.lib.format.write_array(array_bytes, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, array_bytes.getvalue(), compresslevel=9)
    return archive_bytes.getvalue()


def parse_arguments() -> argparse.Namespace:
    """The defaults make the files that are in the repository."""
    parser = argparse.ArgumentParser(
        description="Make the model and the images of the embedded demo."
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        default=DATASET,
        help="folder of the four IDX files (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "mcutrain" / "demo", help="folder for the files"
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument(
        "--calibration",
        type=int,
        default=500,
        help="number of training images (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--save-float", type=Path, help="also keep the folded float network (torch state dict) here"
    )
    return parser.parse_args()


def main() -> int:
    """Train, fold, quantize, measure, write; returns the exit status."""
    options = parse_arguments()
    if not options.dataset.is_dir():
        print(
            f"{options.dataset} is missing: apt install dataset-fashion-mnist, or name --dataset",
            file=sys.stderr,
        )
        return 1
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    images, labels = read_split(options.dataset, "train")
    test_images, test_labels = read_split(options.dataset, "t10k")
    network = Network().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    weights = sum(layer.get_parameter("weight").numel() for layer in network.layers.values())
    print(f"{weights:,} weights, {sum(count_macs().values()):,} multiply-accumulates")

    train(network, images, labels, options)
    network.eval()
    float_model = onnx_model(network)
    network.fold()
    if options.save_float:
        torch.save(network.state_dict(), options.save_float)
    chosen = np.random.default_rng(options.seed).choice(
        len(images), options.calibration, replace=False
    )
    model = write_model(network, calibrate(network, images[np.sort(chosen)]))

    print(
        "float accuracy on the 10,000 test images: "
        f"{float_accuracy(network, test_images, test_labels):.2%}"
    )
    print(
        "int8 accuracy on the same:                "
        f"{int8_accuracy(model, test_images, test_labels):.2%}"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("fashion.onnx", float_model),
        ("fashion.int8.tflite", model),
        ("fashion.npz", pack_npz(demo_images(test_images, test_labels))),
    ):
        (options.out / name).write_bytes(content)
        print(f"{options.out / name}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
