"""The Python package on an emulated Raspberry Pi: a run there ends with this computer's state.

    .venv/bin/pip wheel --no-deps -w wheel .
    .venv/bin/python benchmarks/emulated_pi.py FOLDER --wheel wheel/mcutrain-*.whl

FOLDER gets a Python of Debian for aarch64 (apt-get download, nothing is installed), the wheels of
all dependencies for aarch64 (pip download) and the wheel. qemu-aarch64 runs `mcutrain simulate`
there, with aarch64-linux-gnu-gcc as the compiler; the same runs here, by this Python. The states
are compared byte for byte. A second call finds FOLDER as it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

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
COMPILER = "aarch64-linux-gnu-gcc"
MODEL, DATA = (
    str(REPOSITORY / "mcutrain" / "demo" / name) for name in ("fashion.int8.tflite", "fashion.npz")
)
RUN = (
    f"simulate {MODEL} --data {DATA} --scheme last:2 --epochs 1 --lr 0.01 --samples 60 "
    "--test-samples 40 --seed 3 --save-state state.mcts"
)


def main() -> None:
    """Print whether the states are the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", type=Path, help="of mcutrain; needed the first time")
    options = parser.parse_args()
    prepare(options.folder, options.wheel)
    states = []
    for where, run in (("pi", _emulated), ("here", _here)):
        place = options.folder.resolve() / where
        place.mkdir(exist_ok=True)
        run(options.folder.resolve(), place, ["-m", "mcutrain.cli", *RUN.split()])
        states.append((place / "state.mcts").read_bytes())
    verdict = "the same" if states[0] == states[1] else "ANOTHER"
    print(f"{len(states[0]):,} bytes of state: {verdict} on the emulated Pi and here")


def prepare(folder: Path, wheel: Path | None) -> None:
    """Fill the folder with what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "root").exists():
        _root(folder)
    if not (folder / "site" / "numpy").exists():
        _dependencies(folder)
    if wheel is not None:
        for part in ("mcutrain", "mcutrain_host"):
            shutil.rmtree(folder / "site" / part, ignore_errors=True)
        zipfile.ZipFile(wheel).extractall(folder / "site")


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
    """Unpack the wheels of everything that a plain install needs, and Pillow."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["images"]]
    needed = [each.split(";")[0] for each in needed if "python_version <" not in each]
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


def _emulated(folder: Path, place: Path, arguments: Sequence[str]) -> None:
    """Run Python there. The cross compiler does not know the processor that it would run on."""
    compiler = folder / "cc"
    compiler.write_text(
        f'#!/bin/sh\nexec {COMPILER} $(echo "$@" | sed s/-march=native/-mcpu=cortex-a72/)\n'
    )
    compiler.chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CC": str(compiler),
        "PYTHONPATH": str(folder / "site"),
        "MCUTRAIN_CACHE": str(folder / "cache"),
    }
    python = folder / "root" / "usr" / "bin" / f"python{PYTHON}"
    command = ["qemu-aarch64", "-L", str(folder / "root"), str(python), *arguments]
    subprocess.run(command, env=environment, cwd=place, check=True)


def _here(folder: Path, place: Path, arguments: Sequence[str]) -> None:
    environment = {**os.environ, "MCUTRAIN_CACHE": str(folder / "cache-here")}
    subprocess.run([sys.executable, *arguments], env=environment, cwd=place, check=True)


if __name__ == "__main__":
    main()
