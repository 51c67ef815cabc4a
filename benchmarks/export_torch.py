"""Small PyTorch networks as .onnx files, by both exporters: of TorchScript, and of dynamo.

    pip install torch onnx onnxscript                  # in an environment of its own
    python benchmarks/export_torch.py nets             # then benchmarks/zoo.py nets

Members of families of networks, with random weights and statistics of batch norms of noise.
--names: some of them. What an exporter refuses is said. benchmarks/export_networks.py has whole
networks.
"""
# ruff: noqa: D103  the name of a network says what it is

from __future__ import annotations

import argparse
import logging
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

IMAGE, SEQUENCE, TOKENS, CLASSES = (3, 16, 16), (6, 24), (24, 6), 4
BATCH = 8  # of the noise that batch norms see


def conv(inside: int, outside: int, size: int = 3, act: nn.Module | None = None) -> nn.Sequential:
    """Convolution, batch norm, activation."""
    layers = [nn.Conv2d(inside, outside, size, padding=size // 2, bias=False)]
    return nn.Sequential(*layers, nn.BatchNorm2d(outside), act or nn.ReLU())


def end(channels: int) -> nn.Sequential:
    """Logits of an image."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Branches(nn.Module):
    """Combine what several modules make of one input."""

    def __init__(self, how: Callable[[list[Tensor]], Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.how, self.parts = how, nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.how([part(x) for part in self.parts])


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def total(parts: list[Tensor]) -> Tensor:
    return parts[0] + parts[1]


def product(parts: list[Tensor]) -> Tensor:
    return parts[0] * parts[1]


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, dim=1)


def squeeze(channels: int, gate: nn.Module) -> nn.Module:
    """Squeeze and excite."""
    inner = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1)
    )
    return Branches(product, nn.Identity(), nn.Sequential(inner, gate))


class Attention(nn.Module):
    """Multi-head attention as models write it by hand, or by PyTorch's function."""

    def __init__(self, width: int, heads: int, is_fused: bool, is_causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.is_fused, self.is_causal = heads, is_fused, is_causal

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.is_fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        else:
            y = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


def block(width: int, attention: nn.Module, norm: Callable[[int], nn.Module]) -> nn.Module:
    """A layer of a transformer."""
    mixed = nn.Sequential(norm(width), attention)
    wide = nn.Sequential(norm(width), nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))
    return nn.Sequential(
        Branches(total, nn.Identity(), mixed), Branches(total, nn.Identity(), wide)
    )


def of_tokens(*layers: nn.Module) -> nn.Sequential:
    """A network of 8 numbers a token, from TOKENS."""
    mean = Function(lambda x: x.mean(1))
    return nn.Sequential(nn.Linear(6, 8), *layers, mean, nn.Linear(8, CLASSES))


def patches(*layers: nn.Module) -> nn.Sequential:
    """A network of 8 numbers a patch, from IMAGE."""
    tokens = Function(lambda x: x.flatten(2).transpose(1, 2))
    mean = Function(lambda x: x.mean(1))
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), tokens, *layers, mean, nn.Linear(8, CLASSES))


class ClassToken(nn.Module):
    """A vision transformer with a class token and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 17, 8))
        self.block, self.head = block(8, Attention(8, 2, True), nn.LayerNorm), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.block(x)[:, 0])


class ChannelsLastNorm(nn.Module):
    """LayerNorm over the channels of an image, as ConvNeXt has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(nn.Module):
    """Root mean square, as language models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


class ChannelAttention(nn.Module):
    """CBAM's: one small network for the mean and the largest of each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shared = nn.Sequential(
            nn.Conv2d(channels, 4, 1, bias=False), nn.ReLU(), nn.Conv2d(4, channels, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        mean, largest = functional.adaptive_avg_pool2d(x, 1), functional.adaptive_max_pool2d(x, 1)
        return x * torch.sigmoid(self.shared(mean) + self.shared(largest))


class SelectiveKernel(nn.Module):
    """SK: branches weighted by a softmax over them, for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(conv(channels, channels, size) for size in (3, 5))
        self.inner = nn.Sequential(nn.Linear(channels, 4), nn.ReLU(), nn.Linear(4, 2 * channels))

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.stack([branch(x) for branch in self.branches], dim=1)
        n, count, channels = parts.shape[:3]
        weights = self.inner(parts.sum(1).mean((2, 3))).view(n, count, channels)
        return (parts * weights.softmax(1)[..., None, None]).sum(1)


class WindowAttention(nn.Module):
    """Swin's: attention inside windows, which are a batch; shifted ones with a mask."""

    def __init__(self, width: int, is_shifted: bool) -> None:
        super().__init__()
        self.attention, self.is_shifted = Attention(width, 2, False), is_shifted

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        if self.is_shifted:
            x = torch.roll(x, (-1, -1), (1, 2))
        x = x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        x = self.attention(x).view(n, h // 2, w // 2, 2, 2, c)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return torch.roll(x, (1, 1), (1, 2)) if self.is_shifted else x


class Unfolded(nn.Module):
    """MobileViT's: attention among the same pixels of all patches, the pixels as a batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.block = block(width, Attention(width, 2, True), nn.LayerNorm)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        patches = x.reshape(n * c * h // 2, 2, w // 2, 2).transpose(1, 2)
        patches = patches.reshape(n, c, h * w // 4, 4).transpose(1, 3)
        patches = self.block(patches.reshape(n * 4, h * w // 4, c))
        patches = patches.reshape(n, 4, h * w // 4, c).transpose(1, 3)
        patches = patches.reshape(n * c * h // 2, w // 2, 2, 2).transpose(1, 2)
        return patches.reshape(n, c, h, w)


class StandardizedConv(nn.Conv2d):
    """Weight standardization, computed in the graph."""

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5)
        return functional.conv2d(x, w, self.bias, self.stride, self.padding)


class CosineHead(nn.Module):
    """Logits are cosines of a normalized embedding and normalized weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, width))

    def forward(self, x: Tensor) -> Tensor:
        return 8 * functional.linear(functional.normalize(x), functional.normalize(self.weight))


class Rotary(nn.Module):
    """Attention with rotated queries and keys, and a causal mask that is filled in."""

    def __init__(self, width: int, fill: float) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        angles = torch.arange(24)[:, None] * torch.tensor([1.0, 0.1])[None]
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))
        self.register_buffer("mask", torch.ones(24, 24).triu(1).bool())
        self.fill = fill

    def _turned(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        qkv = self.qkv(x).view(n, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        q, k, v = self._turned(qkv[0]), self._turned(qkv[1]), qkv[2]
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(self.mask, self.fill)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class SwiGlu(nn.Module):
    """The feed-forward layer of language models."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(a, b, bias=False) for a, b in ((width, 16), (width, 16), (16, width))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class PatchTst(nn.Module):
    """Channels of a time series as a batch, each normalized and cut into patches."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.block = nn.Linear(6, 8), block(8, Attention(8, 2, True), nn.LayerNorm)
        self.head = nn.Linear(6 * 7 * 8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        n, channels, _ = x.shape
        x = (x - x.mean(-1, keepdim=True)) / torch.sqrt(
            x.var(-1, keepdim=True, unbiased=False) + 1e-5
        )
        x = x.unfold(-1, 6, 3).reshape(n * channels, 7, 6)
        return self.head(self.block(self.embed(x)).reshape(n, -1))


def at_last_channels(module: nn.Module) -> nn.Module:
    to, back = (Function(lambda x, o=o: x.permute(*o)) for o in ((0, 2, 3, 1), (0, 3, 1, 2)))
    return nn.Sequential(to, module, back)


def maximum(parts: list[Tensor]) -> Tensor:
    return torch.maximum(parts[0], parts[1])


def minimum(parts: list[Tensor]) -> Tensor:
    return torch.minimum(parts[0], parts[1])


def quotient(parts: list[Tensor]) -> Tensor:
    return parts[0] / (1 + parts[1].abs())


class Causal(nn.Module):
    """PyTorch's own layer with its own mask."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embed, self.layer, self.head = nn.Linear(6, 8), layer, nn.Linear(8, CLASSES)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(24))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(self.embed(x), src_mask=self.mask, is_causal=True)
        return self.head(x[:, -1])


class UNet(nn.Module):
    """One level down and up."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down, self.inner, self.up = conv(3, 8), conv(8, 8), up
        self.last = nn.Sequential(conv(16, 8), nn.Conv2d(8, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        return self.last(torch.cat([self.up(self.inner(functional.max_pool2d(skip, 2))), skip], 1))


class LastStep(nn.Module):
    """The last step of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


def shuffled(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def pooled_both(x: Tensor) -> Tensor:
    return torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)


def causal_1d(inside: int, outside: int, rate: int) -> nn.Module:
    """A convolution that sees no later step."""
    pad = nn.ConstantPad1d((2 * rate, 0), 0.0)
    return nn.Sequential(pad, nn.Conv1d(inside, outside, 3, dilation=rate), nn.ReLU())


def stem(act: nn.Module | None = None) -> nn.Module:
    return conv(3, 8, act=act)


seq, ident = nn.Sequential, nn.Identity
Made = Callable[[], nn.Module]

OF_IMAGES: Mapping[str, Made] = {
    "cnn": lambda: seq(stem(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, CLASSES)),
    "mlp": lambda: seq(nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, CLASSES)),
    "residual": lambda: seq(stem(), Branches(total, ident(), conv(8, 8)), nn.ReLU(), end(8)),
    "mobilenet_v2": lambda: seq(
        stem(nn.ReLU6()),
        Branches(total, ident(), seq(
            conv(8, 16, 1, nn.ReLU6()), nn.Conv2d(16, 16, 3, padding=1, groups=16),
            nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 8, 1),
        )),
        end(8),
    ),
    "mobilenet_v3": lambda: seq(
        stem(nn.Hardswish()), squeeze(8, nn.Hardsigmoid()), conv(8, 8, 1, nn.Hardswish()), end(8)
    ),
    "efficientnet": lambda: seq(stem(nn.SiLU()), squeeze(8, nn.Sigmoid()), end(8)),
    "densenet": lambda: seq(
        stem(), Branches(joined, ident(), conv(8, 4)), nn.AvgPool2d(2), end(12)
    ),
    "inception": lambda: seq(
        stem(), Branches(joined, conv(8, 4, 1), seq(nn.AvgPool2d(3, 1, 1), conv(8, 4))), end(8)
    ),
    "squeezenet": lambda: seq(
        stem(), conv(8, 4, 1), Branches(joined, conv(4, 8, 1), conv(4, 8)),
        nn.Conv2d(16, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ),
    "shufflenet": lambda: seq(stem(), conv(8, 8, 1), Function(shuffled), conv(8, 8, 1), end(8)),
    "resnext": lambda: seq(stem(), nn.Conv2d(8, 8, 3, groups=2), nn.ReLU(), end(8)),
    "dilated": lambda: seq(stem(), nn.Conv2d(8, 8, 3, dilation=2), nn.ReLU(), end(8)),
    "activations": lambda: seq(
        stem(nn.GELU()), conv(8, 8, 1, nn.ELU()), conv(8, 8, 1, nn.Tanh()),
        conv(8, 8, 1, nn.LeakyReLU(0.1)), conv(8, 8, 1, nn.Sigmoid()), end(8),
    ),
    "elu_selu_mish": lambda: seq(
        stem(nn.ELU(0.5)), conv(8, 8, 1, nn.SELU()), conv(8, 8, 1, nn.Mish()),
        conv(8, 8, 1, nn.Softplus()), end(8),
    ),
    "prelu": lambda: seq(stem(nn.PReLU(8)), conv(8, 8, act=nn.PReLU()), end(8)),
    "global_max": lambda: seq(
        stem(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)
    ),
    "unet": lambda: UNet(nn.ConvTranspose2d(8, 8, 2, 2)),
    "unet_nearest": lambda: UNet(nn.Upsample(scale_factor=2)),
    "unet_bilinear": lambda: UNet(nn.Upsample(scale_factor=2, mode="bilinear")),
    "pixel_shuffle": lambda: seq(stem(), nn.PixelShuffle(2), conv(2, 8), end(8)),
    "instance_norm": lambda: seq(
        nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), end(8)
    ),
    "group_norm": lambda: seq(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), end(8)),
    "convnext": lambda: seq(
        nn.Conv2d(3, 8, 2, 2), ChannelsLastNorm(8),
        Branches(total, ident(), seq(
            nn.Conv2d(8, 8, 7, padding=3, groups=8), ChannelsLastNorm(8),
            nn.Conv2d(8, 16, 1), nn.GELU(), nn.Conv2d(16, 8, 1),
        )),
        end(8),
    ),
    "spatial_attention": lambda: seq(
        stem(),
        Branches(product, ident(), seq(
            Function(pooled_both), nn.Conv2d(2, 1, 7, padding=3), nn.Sigmoid()
        )),
        end(8),
    ),
    "cbam": lambda: seq(
        stem(), ChannelAttention(8),
        Branches(product, ident(), seq(
            Function(pooled_both), nn.Conv2d(2, 1, 3, padding=1), nn.Sigmoid()
        )),
        end(8),
    ),
    "selective_kernel": lambda: seq(stem(), SelectiveKernel(8), end(8)),
    "maxout": lambda: seq(
        stem(), Branches(maximum, conv(8, 8, 1), conv(8, 8, 1)),
        Branches(minimum, conv(8, 8, 1), conv(8, 8, 1)), end(8),
    ),
    "quotient": lambda: seq(stem(), Branches(quotient, conv(8, 8, 1), conv(8, 8, 1)), end(8)),
    "weight_standardization": lambda: seq(
        StandardizedConv(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), StandardizedConv(8, 8, 3), end(8)
    ),
    "weight_norm": lambda: seq(
        nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3)), nn.ReLU(), end(8)
    ),
    "cosine": lambda: seq(stem(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), CosineHead(8)),
    "swin": lambda: seq(
        nn.Conv2d(3, 8, 4, 4),
        at_last_channels(seq(
            block(8, WindowAttention(8, False), nn.LayerNorm),
            block(8, WindowAttention(8, True), nn.LayerNorm),
        )),
        end(8),
    ),
    "mobilevit": lambda: seq(stem(), nn.MaxPool2d(4), Unfolded(8), conv(8, 8, 1), end(8)),
    "hard_tanh": lambda: seq(
        stem(nn.Hardtanh()), conv(8, 8, 1, nn.Softsign()), conv(8, 8, 1, nn.Tanhshrink()),
        conv(8, 8, 1, nn.Threshold(0.1, 0.0)), conv(8, 8, 1, nn.CELU(0.5)),
        conv(8, 8, 1, nn.LogSigmoid()), end(8),
    ),
    "glu": lambda: seq(stem(), nn.Conv2d(8, 16, 1), nn.GLU(1), end(8)),
    "lp_pool": lambda: seq(stem(), nn.LPPool2d(2, 2), conv(8, 8), end(8)),
    "log_softmax": lambda: seq(stem(), end(8), nn.LogSoftmax(1)),
    "ghost": lambda: seq(
        stem(), Branches(joined, ident(), seq(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU())),
        nn.Conv2d(16, 8, 1), end(8),
    ),
    "reflect_pad": lambda: seq(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ReLU(), end(8)),
    "channel_shuffle": lambda: seq(stem(), nn.ChannelShuffle(2), conv(8, 8, 1), end(8)),
    "pixel_unshuffle": lambda: seq(nn.PixelUnshuffle(2), conv(12, 8, 1), end(8)),
    "local_response": lambda: seq(stem(), nn.LocalResponseNorm(3), conv(8, 8, 1), end(8)),
    "vit": ClassToken,
    "vit_by_hand": lambda: patches(block(8, Attention(8, 2, False), nn.LayerNorm)),
    "autoencoder": lambda: seq(
        nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, 768), nn.Sigmoid()
    ),
    "conv_autoencoder": lambda: seq(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid()
    ),
    "binary": lambda: seq(
        stem(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1), nn.Sigmoid()
    ),
}  # fmt: skip
OF_SEQUENCES: Mapping[str, Made] = {
    "cnn_1d": lambda: seq(
        nn.Conv1d(6, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3),
        nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES),
    ),
    "patchtst": PatchTst,
    "tcn": lambda: seq(
        nn.Conv1d(6, 8, 1), *(Branches(total, ident(), causal_1d(8, 8, r)) for r in (1, 2, 4)),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES),
    ),
}  # fmt: skip
OF_TOKENS: Mapping[str, Made] = {
    "transformer": lambda: of_tokens(block(8, Attention(8, 2, True), nn.LayerNorm)),
    "encoder_layer": lambda: of_tokens(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
    "causal": lambda: of_tokens(block(8, Attention(8, 2, True, True), nn.LayerNorm)),
    "rms_norm": lambda: of_tokens(block(8, Attention(8, 2, True), RMSNorm)),
    "rms_norm_of_torch": lambda: of_tokens(block(8, Attention(8, 2, True), nn.RMSNorm)),
    "rotary": lambda: of_tokens(block(8, Rotary(8, -math.inf), RMSNorm), SwiGlu(8)),
    "rotary_far": lambda: of_tokens(block(8, Rotary(8, -1e9), nn.LayerNorm)),
    "decoder_layer": lambda: Causal(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
    "mixer": lambda: of_tokens(
        Branches(total, ident(), seq(
            nn.LayerNorm(8), Function(lambda x: x.transpose(1, 2)), nn.Linear(24, 16), nn.GELU(),
            nn.Linear(16, 24), Function(lambda x: x.transpose(1, 2)),
        )),
    ),
    "lstm": lambda: LastStep(nn.LSTM(6, 8, batch_first=True)),
    "gru": lambda: LastStep(nn.GRU(6, 8, batch_first=True)),
    "lstm_both_ways": lambda: LastStep(nn.LSTM(6, 4, bidirectional=True, batch_first=True)),
    "gru_of_two_layers": lambda: LastStep(nn.GRU(6, 8, 2, batch_first=True)),
}  # fmt: skip
NETWORKS = {**OF_IMAGES, **OF_SEQUENCES, **OF_TOKENS}


def shape_of(name: str) -> tuple[int, ...]:
    """Of a sample."""
    return IMAGE if name in OF_IMAGES else SEQUENCE if name in OF_SEQUENCES else TOKENS


def export(model: nn.Module, x: Tensor, path: Path, is_new: bool) -> None:
    """Write the file by one of the exporters, with all of it inside."""
    if is_new:
        torch.onnx.export(model, (x,), str(path), dynamo=True, external_data=False, verbose=False)
    else:
        torch.onnx.export(model, (x,), str(path), dynamo=False, opset_version=17)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batch", type=int, default=1, help="that the files are fixed to")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        torch.manual_seed(1)
        model = NETWORKS[name]()
        with torch.no_grad():
            model.train()(torch.randn(BATCH, *shape_of(name)))
        x = torch.randn(args.batch, *shape_of(name))
        suffix = "" if args.batch == 1 else f"-batch{args.batch}"
        for exporter in ("old", "new"):
            path = args.folder / f"{name}.torch-{exporter}{suffix}.onnx"
            try:
                export(model.eval(), x, path, exporter == "new")
            except Exception as error:  # of the exporters' many kinds
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                print(f"{name}: no {exporter}: {reason[:100]}", flush=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
