"""The Python package on an emulated Raspberry Pi: what is trained there has this computer's bits.

    .venv/bin/python benchmarks/emulated_pi.py [FOLDER] [--wheel wheel/mcutrain-*.whl]

FOLDER, by default a part of mcutrain's cache, gets a Python of Debian for aarch64 (apt-get
download, nothing is installed) and the wheels of all dependencies for aarch64 (pip download). A
second call finds it as it is, and so does a test (tests/functions/test_emulated_pi.py).
qemu-aarch64 runs `mcutrain simulate`, `watch` and `fit` there, with aarch64-linux-gnu-gcc as the
compiler; the same runs here, by this Python. What both wrote is compared byte for byte. mcutrain is
this checkout's, or a wheel's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.cache import cache_folder

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = "3.11"
PACKAGES = (
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libc6", "libexpat1", "zlib1g", "libssl3", "libbz2-1.0", "liblzma5", "libffi8"),
    *("libsqlite3-0", "libuuid1", "libstdc++6", "libgcc-s1"),
)
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
SOURCE_ONLY = "cobs"
"""Has no wheel for aarch64. pip compiles it there, or leaves its C out where it cannot."""
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
DEMO = REPOSITORY / "mcutrain" / "demo"
MODEL, DATA = DEMO / "fashion.int8.tflite", DEMO / "fashion.npz"
USED = "--samples 60 --test-samples 40 --seed 3"
RUNS = {
    f"simulate {MODEL} --data {DATA} --scheme last:2 --epochs 1 --lr 0.01 {USED} "
    "--save-state state.mcts": ("state.mcts",),
    f"watch {MODEL} inbox --scheme last:2 --lr 0.01 --replay 3 --once -o learnt": (
        *("learnt/state.mcts", "learnt/trained.tflite", "learnt/watch.json"),
    ),
    f"fit {MODEL} {DATA} --board rpi-pico --epochs 1 {USED} -o fit": (
        *("fit/scheme.toml", "fit/state.mcts", "fit/trained.tflite"),
    ),
}
"""Commands, and the files that they write."""


def main() -> None:
    """Print for each file whether it is the same there and here, and what the commands took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=usual_folder())
    parser.add_argument("--wheel", type=Path, help="of mcutrain, instead of this checkout")
    options = parser.parse_args()
    pi = Pi(options.folder.resolve())
    pi.fill()
    with tempfile.TemporaryDirectory() as folder:
        there, here = Path(folder, "pi"), Path(folder, "here")
        package = packages(Path(folder, "packages"), options.wheel)
        for place in (there, here):
            write_images(place / "inbox", 6)
        for command, files in RUNS.items():
            words = ["-m", "mcutrain.cli", *command.split()]
            begun = os.times()
            pi.run(there, package, words)
            ended = os.times()
            subprocess.run([sys.executable, *words], cwd=here, check=True)
            seconds = (_seconds(begun, ended), _seconds(ended, os.times()))
            print(f"mcutrain {words[2]}: {seconds[0]:.1f} s of this CPU, {seconds[1]:.1f} s here")
            for name in files:
                content = (there / name).read_bytes()
                verdict = "the same" if content == (here / name).read_bytes() else "ANOTHER"
                print(f"  {name}: {len(content):,} bytes, {verdict} on the emulated Pi and here")


def usual_folder() -> Path:
    """Where the Pi is kept."""
    return cache_folder() / "emulated-pi"


def packages(folder: Path, wheel: Path | None = None) -> Path:
    """Make a folder that Python imports mcutrain from: links to this checkout, or a wheel's."""
    folder.mkdir(parents=True)
    if wheel is not None:
        zipfile.ZipFile(wheel).extractall(folder)
        return folder
    made = _project()["tool"]["setuptools"]["package-dir"]
    for name, place in {"mcutrain": "mcutrain", **made}.items():
        (folder / name).symlink_to(REPOSITORY / place)
    about = folder / "mcutrain-0.dist-info"
    about.mkdir()
    version = _project()["project"]["version"]
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mcutrain\nVersion: {version}\n")
    return folder


def write_images(folder: Path, count: int) -> None:
    """So many images of the demo in folders of two classes, with a time of their own."""
    from PIL import Image

    with np.load(DATA) as file:
        x, names = file["x_train"], file["names"][file["y_train"]]
    for i in range(count):
        name = ("Trouser", "Bag")[i % 2]
        path = folder / name / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[names == name][i]).save(path)
        os.utime(path, (i, i))


def _project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def _needed() -> list[str]:
    """What a plain install needs, and Pillow."""
    project = _project()["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["images"]]
    return [each.split(";")[0] for each in needed if "python_version <" not in each]


@dataclass(frozen=True)
class Pi:
    """A folder with a Python for aarch64 and what mcutrain needs there."""

    folder: Path

    @property
    def missing(self) -> str:
        """What it needs and has not; empty if it can run."""
        for program, package in ((EMULATOR, "qemu-user"), (COMPILER, "gcc-aarch64-linux-gnu")):
            if shutil.which(program) is None:
                return f"no {program}: apt install {package}"
        if self._filled.is_file() and self._filled.read_text().splitlines() == _needed():
            return ""
        return f"no Python for aarch64: {Path(__file__).relative_to(REPOSITORY)} downloads it"

    @property
    def _python(self) -> Path:
        return self.folder / "root" / "usr" / "bin" / "python"

    @property
    def _filled(self) -> Path:
        """Has what was needed when the folder was filled."""
        return self.folder / "needed.txt"

    def fill(self) -> None:
        """Download what is not there yet."""
        if not self.missing:
            return
        for old in ("apt", "root", "wheels", "site", "source"):
            shutil.rmtree(self.folder / old, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        _root(self.folder)
        _dependencies(self.folder)
        # the cross compiler does not know the processor that it would run on
        options = '$(echo "$@" | sed s/-march=native/-mcpu=cortex-a72/)'
        _write_script(self.folder / "cc", f"exec {COMPILER} {options}")
        # Python starts itself by the name that it was started by
        emulated = f'{EMULATOR} -0 "$0" -L "${{0%/usr/bin/python}}" "$0{PYTHON}"'
        _write_script(self._python, f'exec {emulated} "$@"')
        self._filled.write_text("\n".join(_needed()))

    def run(self, place: Path, package: Path, arguments: Sequence[str]) -> None:
        """Run Python there, in a place. package: see `packages`."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CC": str(self.folder / "cc"),
            "PYTHONPATH": f"{package}:{self.folder / 'site'}",
            "MCUTRAIN_CACHE": str(self.folder / "cache"),
        }
        command = [str(self._python), *arguments]
        subprocess.run(command, env=environment, cwd=place, check=True)


def _write_script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _seconds(begun: os.times_result, ended: os.times_result) -> float:
    """What programs that were started took of the CPU in between."""
    both = [each.children_user + each.children_system for each in (begun, ended)]
    return both[1] - both[0]


def _root(folder: Path) -> None:
    """Unpack Debian's Python for arm64, with lists of packages of its own."""
    apt = folder / "apt"
    for place in ("state/lists/partial", "cache/archives/partial", "files"):
        (apt / place).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State": f"{apt.resolve()}/state",
        "Dir::Cache": f"{apt.resolve()}/cache",
        "Dir::State::status": f"{apt.resolve()}/status",
    }
    (apt / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()))
    environment = {**os.environ, "APT_CONFIG": str((apt / "apt.conf").resolve())}
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=True)
    download = ["apt-get", "download", "-qq", *PACKAGES]
    subprocess.run(download, env=environment, cwd=apt / "files", check=True)
    for file in sorted((apt / "files").glob("*.deb")):
        subprocess.run(["dpkg", "-x", file, folder / "root"], check=True)


def _dependencies(folder: Path) -> None:
    """Unpack the wheels of what is needed."""
    needed = _needed()
    pip = [sys.executable, "-m", "pip", "download", "-q", "--dest", str(folder / "wheels")]
    target = [f"--platform={name}" for name in PLATFORMS]
    target += [f"--python-version={PYTHON}", "--implementation=cp"]
    target += [f"--abi={name}" for name in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    wheels = [each for each in needed if not each.startswith(SOURCE_ONLY)]
    subprocess.run([*pip, "--only-binary=:all:", *target, *wheels], check=True)
    source = next(each for each in needed if each.startswith(SOURCE_ONLY))
    subprocess.run([*pip, "--no-deps", "--no-binary=:all:", source], check=True)
    for file in sorted((folder / "wheels").glob("*.whl")):
        zipfile.ZipFile(file).extractall(folder / "site")
    (archive,) = (folder / "wheels").glob(f"{SOURCE_ONLY}-*.tar.gz")
    shutil.unpack_archive(archive, folder / "source")
    (package,) = (folder / "source").glob(f"{SOURCE_ONLY}-*/src/{SOURCE_ONLY}")
    shutil.copytree(package, folder / "site" / SOURCE_ONLY, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
