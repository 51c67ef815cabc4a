"""Networks of timm and transformers as .onnx files, by both of PyTorch's exporters.

    pip install torch torchvision timm transformers onnx onnxscript    # in its own environment
    python benchmarks/export_classes.py nets                          # then benchmarks/zoo.py nets

Their own classes with random weights, thin and of few layers where an argument says so, of images
of 64x64 or of 16 token ids. --names: some of them. A package that is absent is said, and its
networks are left out, as is what an exporter refuses.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from export_torch import export
from torch import nn

SIDE, TOKENS, ROWS, CLASSES = 64, 16, 100, 4
BATCH = 8  # of the noise that batch norms see

OF_TIMM: Mapping[str, Mapping[str, Any]] = {
    "resnet10t": {},
    "skresnet18": {"layers": (1, 1, 1, 1)},
    "resnest14d": {},
    "mobilenetv2_035": {},
    "mobilenetv3_small_050": {},
    "mnasnet_small": {},
    "lcnet_035": {},
    "tinynet_e": {},
    "ghostnet_050": {},
    "regnetx_002": {},
    "regnety_002": {},
    "densenet121": {"block_config": (2, 2, 2, 2), "growth_rate": 8},
    "repvgg_a0": {},
    "mobileone_s0": {},
    "hrnet_w18_small": {},
    "convnext_atto": {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)},
    "convnextv2_atto": {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)},
    "mobilevit_xxs": {},
    "edgenext_xx_small": {},
    "fastvit_t8": {},
    "poolformer_s12": {},
    "pvt_v2_b0": {},
    "levit_128s": {"img_size": SIDE},
    "vit_tiny_patch16_224": {"img_size": SIDE, "depth": 2},
    "deit_tiny_distilled_patch16_224": {"img_size": SIDE, "depth": 2},
    "swin_tiny_patch4_window7_224": {
        "img_size": SIDE, "window_size": 4, "depths": (2, 2), "embed_dim": 24, "num_heads": (2, 2),
    },
    "xcit_nano_12_p16_224": {"img_size": SIDE, "depth": 2},
}  # fmt: skip

OF_WORDS = {
    "vocab_size": ROWS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64,
}  # fmt: skip
OF_PATCHES = {**OF_WORDS, "image_size": SIDE, "patch_size": 16}
OF_STAGES = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
OF_TRANSFORMERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("SequenceClassification", OF_WORDS),
    "roberta": ("SequenceClassification", OF_WORDS),
    "electra": ("SequenceClassification", {**OF_WORDS, "embedding_size": 16}),
    "albert": ("SequenceClassification", {**OF_WORDS, "embedding_size": 16}),
    "distilbert": (
        "SequenceClassification",
        {"vocab_size": ROWS, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    ),
    "mobilebert": (
        "SequenceClassification", {**OF_WORDS, "embedding_size": 16, "intra_bottleneck_size": 16},
    ),
    "vit": ("ImageClassification", OF_PATCHES),
    "deit": ("ImageClassification", OF_PATCHES),
    "dinov2": ("ImageClassification", OF_PATCHES),
    "mobilevit": (
        "ImageClassification",
        {
            "image_size": SIDE, "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 12, 16, 24, 32, 64],
        },
    ),
    "mobilenet_v2": ("ImageClassification", {"image_size": SIDE, "depth_multiplier": 0.35}),
    "convnext": ("ImageClassification", OF_STAGES),
    "resnet": ("ImageClassification", {**OF_STAGES, "embedding_size": 16}),
    "poolformer": ("ImageClassification", OF_STAGES),
    "swin": (
        "ImageClassification",
        {
            "image_size": SIDE, "window_size": 4, "depths": [2, 2], "embed_dim": 24,
            "num_heads": [2, 2],
        },
    ),
    "segformer": (
        "ImageClassification",
        {**OF_STAGES, "hidden_sizes": [16, 16, 32, 32], "num_attention_heads": [1, 2, 2, 4]},
    ),
}  # fmt: skip
"""By model_type: which head, and arguments of its configuration."""


class Logits(nn.Module):
    """A model of transformers, of whose answer only the logits are written."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.inner(x)["logits"]


def settled(model: nn.Module) -> nn.Module:
    """The model with statistics of its batch norms of noise, without which numbers grow or fade."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 1.0
            nn.init.normal_(module.weight, 1.0, 0.1)  # timm begins some with 0, which ends a branch
    with torch.no_grad():
        model.train()(torch.randn(BATCH, 3, SIDE, SIDE))
    return model.eval()


def of_timm(name: str, package: Any) -> tuple[nn.Module, torch.Tensor]:
    """The model and an image."""
    model = package.create_model(name, num_classes=CLASSES, **OF_TIMM[name])
    return settled(model), torch.randn(1, 3, SIDE, SIDE)


def of_transformers(name: str, package: Any) -> tuple[nn.Module, torch.Tensor]:
    """The model and an image or ids."""
    head, settings = OF_TRANSFORMERS[name]
    config = package.AutoConfig.for_model(name, num_labels=CLASSES, **settings)
    config.architectures = config.architectures or []  # transformers 5.24 iterates over them
    model = getattr(package, f"AutoModelFor{head}").from_config(config)
    if head == "SequenceClassification":
        return Logits(model).eval(), torch.randint(2, ROWS, (1, TOKENS))
    return settled(Logits(model)), torch.randn(1, 3, SIDE, SIDE)


Made = Callable[[str, Any], tuple[nn.Module, torch.Tensor]]
PACKAGES: Mapping[str, tuple[Made, tuple[str, ...]]] = {
    "timm": (of_timm, tuple(OF_TIMM)),
    "transformers": (of_transformers, tuple(OF_TRANSFORMERS)),
}


def _refused(what: str, error: Exception) -> None:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    print(f"{what}: {reason[:100]}", flush=True)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="*", default=[])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.folder.mkdir(parents=True, exist_ok=True)
    for package_name, (make, names) in PACKAGES.items():
        try:
            package = importlib.import_module(package_name)
        except Exception as error:  # of a package that is there, but does not load, too
            _refused(f"{package_name} is left out", error)
            continue
        for name in (n for n in args.names or names if n in names):
            torch.manual_seed(1)
            try:
                model, x = make(name, package)
            except Exception as error:  # another version has other arguments
                _refused(f"{name}: not made", error)
                continue
            for exporter in ("old", "new"):
                path = args.folder / f"{name}.{package_name}-{exporter}.onnx"
                try:
                    export(model, x, path, exporter == "new")
                except Exception as error:  # of the exporters' many kinds
                    _refused(f"{name}: no {exporter}", error)
            print(package_name, name, flush=True)


if __name__ == "__main__":
    main()
