"""Small Keras networks as .tflite files: float, halves, dynamic range, int8; and as .onnx.

    pip install tensorflow-cpu tf2onnx                 # in an environment of its own
    python benchmarks/export_keras.py nets             # then benchmarks/zoo.py nets

Members of families of networks, with random weights and statistics of batch norms of noise, as the
converter of today writes them. --names: some of them. What the converter refuses is said.
"""
# ruff: noqa: D103  the name of a network says what it is

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "0")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

Tensor = Any
IMAGE = (16, 16, 3)
SEQUENCE = (24, 6)
CLASSES = 4
CALIBRATED = 16  # inputs of TFLite's quantization
SPREAD = 0.1  # of parameters around where they begin, so that no bias is 0 and no gamma 1


def conv(x: Tensor, filters: int, size: int = 3, activation: str | None = "relu") -> Tensor:
    """Convolution, batch norm, activation."""
    x = layers.Conv2D(filters, size, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x) if activation else x


def end(x: Tensor) -> Tensor:
    """Logits of an image or a sequence."""
    pool = layers.GlobalAveragePooling2D() if len(x.shape) == 4 else layers.GlobalAveragePooling1D()
    return layers.Dense(CLASSES)(pool(x))


def cnn(x: Tensor) -> Tensor:
    x = layers.MaxPooling2D()(conv(x, 8))
    return layers.Dense(CLASSES, "softmax")(layers.Flatten()(conv(x, 8)))


def mlp(x: Tensor) -> Tensor:
    x = layers.Dense(16, "relu")(layers.Flatten()(x))
    return layers.Dense(CLASSES)(layers.Dropout(0.1)(layers.Dense(16, "tanh")(x)))


def residual(x: Tensor) -> Tensor:
    x = conv(x, 8)
    y = layers.Add()([x, conv(conv(x, 8), 8, activation=None)])
    return end(layers.ReLU()(y))


def mobilenet_v2(x: Tensor) -> Tensor:
    x = conv(x, 8, activation="relu6")
    y = conv(x, 24, 1, "relu6")
    y = layers.ReLU(6.0)(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(y)))
    return end(layers.Add()([x, conv(y, 8, 1, None)]))


def mobilenet_v3(x: Tensor) -> Tensor:
    x = conv(x, 8, activation="hard_swish")
    y = squeeze(conv(x, 16, 1, "hard_swish"), 16, "hard_sigmoid")
    return end(layers.Add()([x, conv(y, 8, 1, None)]))


def squeeze(x: Tensor, channels: int, gate: str = "sigmoid", keepdims: bool = True) -> Tensor:
    """Squeeze and excite."""
    y = layers.GlobalAveragePooling2D(keepdims=keepdims)(x)
    if not keepdims:
        y = layers.Reshape((1, 1, channels))(y)
    y = layers.Conv2D(channels // 4, 1, activation="relu")(y)
    return layers.Multiply()([x, layers.Conv2D(channels, 1, activation=gate)(y)])


def squeeze_excite(x: Tensor) -> Tensor:
    return end(squeeze(conv(x, 16), 16))


def squeeze_excite_dense(x: Tensor) -> Tensor:
    x = conv(x, 16)
    y = layers.Dense(4, "relu")(layers.GlobalAveragePooling2D()(x))
    y = layers.Reshape((1, 1, 16))(layers.Dense(16, "sigmoid")(y))
    return end(layers.Multiply()([x, y]))


def efficientnet(x: Tensor) -> Tensor:
    x = conv(x, 8, activation="swish")
    y = conv(x, 16, 1, "swish")
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    y = squeeze(layers.Activation("swish")(layers.BatchNormalization()(y)), 16, "sigmoid", False)
    return end(layers.Add()([x, conv(y, 8, 1, None)]))


def separable_global_max(x: Tensor) -> Tensor:
    x = layers.SeparableConv2D(8, 3, activation="relu", padding="same")(x)
    x = layers.SeparableConv2D(8, 3, strides=2, activation="relu")(x)
    return layers.Dense(CLASSES)(layers.GlobalMaxPooling2D()(x))


def densenet(x: Tensor) -> Tensor:
    x = conv(x, 8)
    for _ in range(2):
        x = layers.Concatenate()([x, conv(x, 4)])
    return end(layers.AveragePooling2D(2)(conv(x, 8, 1)))


def inception(x: Tensor) -> Tensor:
    x = conv(x, 8)
    pooled = layers.AveragePooling2D(3, 1, "same")(x)
    return end(layers.Concatenate()([conv(x, 4, 1), conv(x, 4, 3), conv(pooled, 4, 1)]))


def grouped(x: Tensor) -> Tensor:
    x = conv(x, 8)
    x = layers.Conv2D(8, 3, groups=2, padding="same", activation="relu")(x)
    return end(x)


def dilated(x: Tensor) -> Tensor:
    x = layers.Conv2D(8, 3, dilation_rate=2, activation="relu")(x)
    return end(layers.LeakyReLU(0.1)(layers.Conv2D(8, 3, padding="same")(x)))


def unet(x: Tensor) -> Tensor:
    a = conv(x, 8)
    b = conv(layers.MaxPooling2D()(a), 16)
    up = layers.Conv2DTranspose(8, 2, strides=2, padding="same")(b)
    return layers.Conv2D(CLASSES, 1)(conv(layers.Concatenate()([a, up]), 8))


def upsampling(x: Tensor) -> Tensor:
    a = conv(x, 8)
    up = layers.UpSampling2D()(conv(layers.MaxPooling2D()(a), 8))
    return end(conv(layers.Concatenate()([a, up]), 8))


def upsampling_bilinear(x: Tensor) -> Tensor:
    x = conv(layers.MaxPooling2D()(conv(x, 8)), 8)
    return end(conv(layers.UpSampling2D(interpolation="bilinear")(x), 8))


def prelu_shared(x: Tensor) -> Tensor:
    x = layers.PReLU(shared_axes=[1, 2])(conv(x, 8, activation=None))
    return end(layers.PReLU(shared_axes=[1, 2])(conv(x, 8, activation=None)))


def activations(x: Tensor) -> Tensor:
    for name in ("gelu", "elu", "swish", "tanh", "sigmoid"):
        x = conv(x, 8, activation=name)
    return end(x)


def selu_softplus(x: Tensor) -> Tensor:
    for name in ("selu", "softplus", "mish", "hard_sigmoid"):
        x = conv(x, 8, activation=name)
    return end(x)


def padded(x: Tensor) -> Tensor:
    x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(x)
    return end(layers.Cropping2D(1)(conv(x, 8)))


def layer_norm(x: Tensor) -> Tensor:
    x = layers.LayerNormalization()(layers.Conv1D(8, 3, padding="same")(x))
    return end(layers.Dense(8, "relu")(x))


def group_norm(x: Tensor) -> Tensor:
    x = layers.Activation("relu")(layers.GroupNormalization(4)(layers.Conv2D(8, 3)(x)))
    return end(layers.Conv2D(8, 3, activation="relu")(x))


def convnext(x: Tensor) -> Tensor:
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(8, 2, strides=2)(x))
    y = layers.LayerNormalization(epsilon=1e-6)(layers.DepthwiseConv2D(7, padding="same")(x))
    y = layers.Dense(8)(layers.Dense(32, "gelu")(y))
    return end(layers.Add()([x, y]))


def transformer(x: Tensor) -> Tensor:
    x = layers.Dense(8)(x)
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 4)(y, y)])
    y = layers.Dense(8)(layers.Dense(16, "gelu")(layers.LayerNormalization()(x)))
    return end(layers.Add()([x, y]))


def vit(x: Tensor) -> Tensor:
    x = layers.Reshape((16, 8))(layers.Conv2D(8, 4, strides=4)(x))
    return transformer(x)


def mixer(x: Tensor) -> Tensor:
    x = layers.Dense(8)(x)
    y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
    y = layers.Permute((2, 1))(layers.Dense(SEQUENCE[0])(layers.Dense(16, "gelu")(y)))
    return end(layers.Add()([x, y]))


def cnn_1d(x: Tensor) -> Tensor:
    x = layers.MaxPooling1D()(layers.Conv1D(8, 5, activation="relu")(x))
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv1D(8, 3)(x)))
    return layers.Dense(CLASSES)(layers.GlobalMaxPooling1D()(x))


def tcn(x: Tensor) -> Tensor:
    x = layers.Conv1D(8, 1)(x)
    for rate in (1, 2, 4):
        y = layers.Conv1D(8, 3, padding="causal", dilation_rate=rate, activation="relu")(x)
        x = layers.Add()([x, y])
    return end(x)


def separable_1d(x: Tensor) -> Tensor:
    x = layers.SeparableConv1D(8, 3, padding="same", activation="relu")(x)
    return end(layers.AveragePooling1D(2)(x))


def keyword_spotting(x: Tensor) -> Tensor:
    x = layers.Reshape((*SEQUENCE, 1))(x)
    x = conv(layers.Conv2D(8, (10, 4), strides=2, padding="same")(x), 8, 1)
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu")(x)
    pooled = layers.AveragePooling2D(x.shape[1:3])(x)
    return layers.Dense(CLASSES, "softmax")(layers.Flatten()(pooled))


def autoencoder(x: Tensor) -> Tensor:
    y = layers.Flatten()(x)
    size = y.shape[-1]
    for units in (16, 4, 16):
        y = layers.Activation("relu")(layers.BatchNormalization()(layers.Dense(units)(y)))
    return layers.Dense(size)(y)


def conv_autoencoder(x: Tensor) -> Tensor:
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu")(x)
    return layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x)


def binary(x: Tensor) -> Tensor:
    return layers.Dense(1, "sigmoid")(layers.GlobalAveragePooling2D()(conv(x, 8)))


def regression(x: Tensor) -> Tensor:
    return layers.Dense(1)(layers.Dense(16, "relu")(layers.Dense(16, "relu")(layers.Flatten()(x))))


def rescaled(x: Tensor) -> Tensor:
    x = layers.Rescaling(1 / 127.5, offset=-1)(x)
    return end(conv(x, 8))


def shuffle(x: Tensor) -> Tensor:
    x = conv(x, 8)
    x = layers.Reshape((16, 16, 2, 4))(x)
    x = layers.Reshape((16, 16, 8))(layers.Permute((1, 2, 4, 3))(x))
    return end(conv(x, 8, 1))


def spatial_attention(x: Tensor) -> Tensor:
    x = conv(x, 8)
    return end(layers.Multiply()([x, layers.Conv2D(1, 7, padding="same", activation="sigmoid")(x)]))


def lstm(x: Tensor) -> Tensor:
    return layers.Dense(CLASSES)(layers.LSTM(8, unroll=False)(x))


def gru(x: Tensor) -> Tensor:
    return layers.Dense(CLASSES)(layers.GRU(8)(x))


def recurrent(x: Tensor) -> Tensor:
    """Both directions, a sequence, a last step."""
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    return layers.Dense(CLASSES)(layers.Bidirectional(layers.GRU(4))(x))


SEQUENCES = (
    *(layer_norm, transformer, mixer, cnn_1d, tcn, separable_1d, keyword_spotting, recurrent),
    *(lstm, gru),  # at the end: their int8 form takes TensorFlow 2.21 down
)
NETWORKS: Mapping[str, Callable[[Tensor], Tensor]] = {
    made.__name__: made
    for made in (
        *(cnn, mlp, residual, mobilenet_v2, mobilenet_v3, squeeze_excite, squeeze_excite_dense),
        *(efficientnet, separable_global_max, densenet, inception, grouped, dilated, unet),
        *(upsampling, upsampling_bilinear, prelu_shared, activations, selu_softplus, padded),
        *(group_norm, convnext, vit, autoencoder, conv_autoencoder, binary, regression, rescaled),
        *(shuffle, spatial_attention),
        *SEQUENCES,
    )
}


def built(name: str, rng: np.random.Generator) -> keras.Model:
    """The network, with parameters that are no special numbers."""
    make = NETWORKS[name]
    keras.utils.set_random_seed(1)
    x = keras.Input(SEQUENCE if make in SEQUENCES else IMAGE, batch_size=1)
    model = keras.Model(x, make(x))
    for variable in model.weights:
        value = variable.numpy()
        noise = rng.normal(0, SPREAD, value.shape)
        is_variance = "variance" in variable.path
        variable.assign(value + (np.abs(noise) if is_variance else noise).astype(np.float32))
    return model


def written(model: keras.Model, name: str, folder: Path, samples: np.ndarray) -> None:
    """All forms that the converters write."""

    def calibration() -> Iterator[list[np.ndarray]]:
        for one in samples:
            yield [one[None]]

    forms: dict[str, dict[str, Any]] = {
        "float": {},
        "f16": {"optimizations": [tf.lite.Optimize.DEFAULT]},
        "dynamic": {"optimizations": [tf.lite.Optimize.DEFAULT]},
        "int8": {
            "optimizations": [tf.lite.Optimize.DEFAULT],
            "representative_dataset": calibration,
            "inference_input_type": tf.int8,
            "inference_output_type": tf.int8,
        },
    }
    for form, settings in forms.items():
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        for key, value in settings.items():
            setattr(converter, key, value)
        if form == "f16":
            converter.target_spec.supported_types = [tf.float16]
        if form == "int8":
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        try:
            content = converter.convert()
        except Exception as error:  # of the converter's many kinds
            print(f"{name}: no {form}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        (folder / f"{name}.keras-{form}.tflite").write_bytes(content)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--onnx", action="store_true", help="by tf2onnx, too")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        rng = np.random.default_rng(1)
        model = built(name, rng)
        shape = (CALIBRATED, *model.input_shape[1:])
        samples = rng.uniform(-1, 1, shape).astype(np.float32)
        written(model, name, args.folder, samples)
        if args.onnx:
            import tf2onnx

            path = args.folder / f"{name}.tf2onnx.onnx"
            try:
                signature = [tf.TensorSpec((1, *model.input_shape[1:]), tf.float32, name="x")]
                function = tf.function(lambda x, m=model: m(x), input_signature=signature)
                tf2onnx.convert.from_function(function, signature, output_path=str(path))
            except Exception as error:  # of the converter's many kinds
                print(f"{name}: no tf2onnx: {str(error).splitlines()[0][:100]}", flush=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
