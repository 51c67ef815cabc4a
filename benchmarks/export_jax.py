"""Small Flax networks as .onnx by jax2onnx, and as .tflite by jax2tf: float, and TFLite's int8.

    pip install jax flax jax2onnx "tensorflow-cpu"     # in an environment of its own
    python benchmarks/export_jax.py nets               # then benchmarks/networks.py nets/*-jax.onnx

Members of families of networks with random weights, for images of 32×32; the statistics of batch
norms are those of noise. --names: some of them. What the converter to .tflite or to int8 refuses
is said and left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import tensorflow as tf
from flax import linen as nn
from jax.experimental import jax2tf
from jax2onnx import to_onnx

Array = Any
Shape = tuple[int, ...]

IMAGE = (32, 32, 3)
SEQUENCE = (64, 6)
FEATURES = (20,)
CLASSES = 4
BATCH = 8  # of the noise that batch norms see
CALIBRATED = 16  # inputs of TFLite's quantization
SPREAD = 0.1  # of parameters around where they begin, so that no bias is 0 and no gamma 1


class Layer(nn.Module):
    """Convolution, batch norm, activation."""

    features: int
    kernel: Shape = (3, 3)
    strides: int = 1
    groups: int = 1
    activation: Callable[[Array], Array] = nn.relu
    is_training: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Apply the layer to images or sequences."""
        x = nn.Conv(
            self.features, self.kernel, self.strides,
            use_bias=False, feature_group_count=self.groups,
        )(x)  # fmt: skip
        return self.activation(nn.BatchNorm(not self.is_training, momentum=0.0)(x))


class Network(nn.Module):
    """is_training: whether batch norms take the statistics of what they see."""

    is_training: bool = False

    def layer(self, *arguments: Any, **more: Any) -> Layer:
        """One of the network's."""
        return Layer(*arguments, **more, is_training=self.is_training)


def _plain(x: Array) -> Array:
    return x


class Cnn(Network):
    """Convolutions and pools, flattened."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        x = nn.max_pool(self.layer(8)(x), window_shape=(2, 2), strides=(2, 2))
        x = nn.avg_pool(self.layer(16)(x), window_shape=(2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(32)(x.reshape((x.shape[0], -1))))
        return nn.Dense(CLASSES)(x)


class ResNet(Network):
    """Basic blocks behind a stem of 7×7."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        x = self.layer(8, (7, 7), 2)(x)
        x = nn.max_pool(x, window_shape=(3, 3), strides=(2, 2), padding="SAME")
        for features, strides in ((8, 1), (16, 2), (16, 1)):
            y = self.layer(features, strides=strides)(x)
            y = self.layer(features, activation=_plain)(y)
            if y.shape != x.shape:
                x = self.layer(features, (1, 1), strides, activation=_plain)(x)
            x = nn.relu(x + y)
        return nn.Dense(CLASSES)(jnp.mean(x, axis=(1, 2)))


class MobileNet(Network):
    """Inverted residuals, perhaps with squeeze and excitation."""

    activation: Callable[[Array], Array] = nn.relu6
    excites: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        act = self.activation
        x = self.layer(8, strides=2, activation=act)(x)
        for expansion, features, strides in ((1, 8, 1), (4, 12, 2), (4, 12, 1)):
            wide = x.shape[-1] * expansion
            y = self.layer(wide, (1, 1), activation=act)(x) if expansion > 1 else x
            y = self.layer(wide, strides=strides, groups=wide, activation=act)(y)
            if self.excites:
                share = jnp.mean(y, axis=(1, 2), keepdims=True)
                share = nn.relu(nn.Conv(4, (1, 1))(share))
                y = y * nn.sigmoid(nn.Conv(wide, (1, 1))(share))
            y = self.layer(features, (1, 1), activation=_plain)(y)
            x = x + y if x.shape == y.shape else y
        x = self.layer(24, (1, 1), activation=act)(x)
        return nn.Dense(CLASSES)(jnp.mean(x, axis=(1, 2)))


class ConvNeXt(Network):
    """Depthwise 7×7, layer norm, two dense layers with GELU, scaled."""

    approximate: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        for stage, features in enumerate((8, 12)):
            x = nn.LayerNorm()(x) if stage else x
            x = nn.Conv(features, (2, 2), (2, 2), padding="VALID")(x)
            y = nn.LayerNorm()(nn.Conv(features, (7, 7), feature_group_count=features)(x))
            y = nn.gelu(nn.Dense(4 * features)(y), approximate=self.approximate)
            gamma = self.param(f"gamma{stage}", nn.initializers.constant(0.5), (features,))
            x = x + nn.Dense(features)(y) * gamma
        return nn.Dense(CLASSES)(nn.LayerNorm()(jnp.mean(x, axis=(1, 2))))


class ViT(Network):
    """Attention over patches of 8×8, with a class token or the mean of all."""

    approximate: bool = True
    has_token: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        x = nn.Conv(12, (8, 8), (8, 8), padding="VALID")(x)
        x = x.reshape((x.shape[0], -1, x.shape[-1]))
        if self.has_token:
            token = self.param("token", nn.initializers.normal(1.0), (1, 1, x.shape[-1]))
            x = jnp.concatenate([jnp.tile(token, (x.shape[0], 1, 1)), x], axis=1)
        x = x + self.param("positions", nn.initializers.normal(0.3), (1, *x.shape[1:]))
        for _ in range(2):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=3, deterministic=True)(y, y)
            y = nn.gelu(nn.Dense(24)(nn.LayerNorm()(x)), approximate=self.approximate)
            x = x + nn.Dense(x.shape[-1])(y)
        x = nn.LayerNorm()(x)
        return nn.Dense(CLASSES)(x[:, 0] if self.has_token else jnp.mean(x, axis=1))


class Mlp(Network):
    """Dense layers."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits."""
        for units in (32, 16):
            x = nn.relu(nn.Dense(units)(x))
        return nn.Dense(CLASSES)(x)


class Cnn1d(Network):
    """Convolutions over a sequence; probabilities."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Probabilities."""
        x = self.layer(16, (5,), 2)(x)
        x = self.layer(24, (5,))(x)
        return nn.softmax(nn.Dense(CLASSES)(jnp.mean(x, axis=1)))


class UNet(Network):
    """One level down and up; a class for each pixel."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Logits of each pixel."""
        skip = self.layer(8)(x)
        x = self.layer(12)(nn.max_pool(skip, window_shape=(2, 2), strides=(2, 2)))
        x = jax.image.resize(x, (*skip.shape[:3], x.shape[3]), "nearest")
        x = self.layer(8)(jnp.concatenate([x, skip], axis=-1))
        return nn.Conv(CLASSES, (1, 1))(x)


NETWORKS: Mapping[str, tuple[Callable[[bool], nn.Module], Shape]] = {
    "cnn": (Cnn, IMAGE),
    "resnet": (ResNet, IMAGE),
    "mobilenet_v2": (MobileNet, IMAGE),
    "mobilenet_v3": (lambda t: MobileNet(t, nn.hard_swish, True), IMAGE),
    "efficientnet": (lambda t: MobileNet(t, nn.silu, True), IMAGE),
    "convnext": (ConvNeXt, IMAGE),
    "convnext_exact_gelu": (lambda t: ConvNeXt(t, False), IMAGE),
    "vit": (ViT, IMAGE),
    "vit_exact_gelu": (lambda t: ViT(t, False, False), IMAGE),
    "mlp": (Mlp, FEATURES),
    "cnn_1d": (Cnn1d, SEQUENCE),
    "unet": (UNet, IMAGE),
}


def function_of(name: str) -> tuple[Callable[[Array], Array], Shape]:
    """The network as a function of a batch, and the shape of a sample."""
    make, shape = NETWORKS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (BATCH, *shape)).astype(np.float32)
    variables = make(False).init(jax.random.PRNGKey(0), x)
    spread = lambda p: p + rng.normal(0, SPREAD, p.shape).astype(np.float32)  # noqa: E731
    variables = {**variables, "params": jax.tree_util.tree_map(spread, variables["params"])}
    if "batch_stats" in variables:
        _, seen = make(True).apply(variables, x, mutable=["batch_stats"])
        variables = {**variables, **seen}
    network = make(False)
    return lambda x: network.apply(variables, x), shape


def tflite(function: Callable[[Array], Array], shape: Shape, is_int8: bool) -> bytes:
    """The content of a file, of a batch of 1."""
    signature = [tf.TensorSpec((1, *shape), tf.float32, name="input")]
    traced = tf.function(jax2tf.convert(function), input_signature=signature, autograph=False)
    concrete = traced.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced)
    if is_int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _noise(shape)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    content: bytes = converter.convert()
    return content


def _noise(shape: Shape) -> Iterator[list[Array]]:
    rng = np.random.default_rng(1)
    for _ in range(CALIBRATED):
        yield [rng.normal(0, 1, (1, *shape)).astype(np.float32)]


def main() -> None:
    """Write NAME-jax.onnx, NAME-jax.tflite and NAME-jax.int8.tflite of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="+", choices=NETWORKS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NETWORKS:
        function, shape = function_of(name)
        path = options.folder / f"{name}-jax.onnx"
        model = to_onnx(function, [("B", *shape)] if name != "unet" else [(1, *shape)])
        for thing in (*model.graph.node, *model.graph.value_info, model.graph, model):
            thing.ClearField("doc_string")
            thing.ClearField("metadata_props")
        onnx.save(model, path)
        print(path, flush=True)
        for suffix, is_int8 in ((".tflite", False), (".int8.tflite", True)):
            path = options.folder / f"{name}-jax{suffix}"
            try:
                path.write_bytes(tflite(function, shape, is_int8))
            except Exception as error:  # the converter's errors share no other base
                print(f"{path}: refused by the converter: {str(error)[:200]!r}")
            else:
                print(path, flush=True)


if __name__ == "__main__":
    main()
