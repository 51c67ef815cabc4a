"""Optional packages: what each is for, whether it is there, and how it is installed.

Whoever needs one asks before work begins; a missing one is a sentence that names the extra.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from mcutrain_host.dataclass import dataclass


@dataclass(frozen=True)
class Package:
    """A distribution of the package index. modules: any one of them suffices.

    extra: of mcutrain, which installs it. purpose: what cannot be done without it.
    """

    name: str
    modules: tuple[str, ...]
    extra: str
    purpose: str

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported; it is not."""
        return any(_is_there(module) for module in self.modules)

    @property
    def missing(self) -> str:
        """The sentence for whoever needs it."""
        return (
            f"{self.purpose} needs the package {self.name}, which is not installed: "
            f"{install((self,))}"
        )


OPTIONAL = {
    package.name: package
    for package in (
        Package("ziglang", ("ziglang",), "compiler", "compiling C where no gcc is installed"),
        Package("unicorn", ("unicorn",), "virtual", "running a virtual board"),
        Package("pillow", ("PIL",), "images", "reading images from folders"),
        Package("soundfile", ("soundfile",), "sounds", "reading FLAC, Ogg or MP3"),
        Package("pyarrow", ("pyarrow",), "parquet", "reading Parquet"),
        Package(
            "ai-edge-litert",
            ("ai_edge_litert", "tflite_runtime"),
            "oracle",
            "comparing with TensorFlow Lite's kernels",
        ),
        Package("onnxruntime", ("onnxruntime",), "oracle", "comparing with onnxruntime"),
        Package(
            "opencv-python-headless",
            ("picamera2", "cv2"),
            "camera",
            "taking pictures with a camera",
        ),
        Package("tensorboardX", ("tensorboardX",), "tensorboard", "writing TensorBoard's files"),
        Package("uvicorn", ("uvicorn",), "web", "a live page (--web)"),
        Package("stm32loader", ("stm32loader",), "stm32", "flashing an STM32 over a serial line"),
        Package("pyocd", ("pyocd",), "pyocd", "flashing by a debug probe"),
        Package("flwr", ("flwr",), "fleet", "running a fleet's Flower app"),
        Package("cryptography", ("cryptography",), "fleet", "hiding a gateway's sum by masks"),
        Package(
            "dp-accounting", ("dp_accounting",), "privacy", "saying the ε of a fleet with noise"
        ),
        Package("distributed", ("distributed",), "dask", "an analysis on a Dask cluster"),
        Package("ray", ("ray",), "ray", "an analysis on a Ray cluster"),
    )
}
"""By name, in the order in which a newcomer meets them."""


def install(packages: Iterable[Package]) -> str:
    """The one command that installs them all."""
    extras = ",".join(sorted({package.extra for package in packages}))
    return f"pip install 'mcutrain[{extras}]'"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module without a specification, as __main__ is one
        return False
