"""mcutrain doctor: what is installed, what is missing, how to get it."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

import mcutrain
from mcutrain.cli.options import Json
from mcutrain.cli.output import show, show_json, show_table
from mcutrain.errors import BuildError

REQUIRED = (
    *("numpy", "onnx", "protobuf", "tflite", "flatbuffers", "jinja2", "typer", "rich"),
    *("pyserial", "cobs"),
)
OPTIONAL = {
    "ziglang": "a C compiler where the system has none: pip install ziglang",
    "pillow": "data sets in image folders: pip install 'mcutrain[images]'",
    "ai-edge-litert": "mcutrain verify for .tflite: pip install 'mcutrain[oracle]'",
    "pyocd": "flashing by a debug probe: pip install 'mcutrain[pyocd]'",
    "stm32loader": "flashing over a serial line: pip install 'mcutrain[stm32]'",
    "tensorboardX": "mcutrain train --tensorboard: pip install 'mcutrain[tensorboard]'",
    "onnxruntime": "mcutrain verify for .onnx: pip install 'mcutrain[oracle]'",
}
TOOLS = {
    "arm-none-eabi-gcc": "firmware for Cortex-M (else zig): apt-get install gcc-arm-none-eabi",
    "qemu-system-arm": "a second emulator beside Unicorn: apt-get install qemu-system-arm",
    "aarch64-linux-gnu-gcc": "the Raspberry Pi's program (else zig): apt-get install "
    "gcc-aarch64-linux-gnu",
    "qemu-aarch64": "trying that program here: apt-get install qemu-user",
}
CPU_FEATURES = ("avx2", "avx_vnni", "avx512_vnni", "asimd", "asimddp")
"""Int8 arithmetic that host bodies can use, as /proc/cpuinfo names it."""
PROGRAM = """#include <stdint.h>
#include <stdio.h>
int main(void) {
    volatile int32_t a = -5; /* C leaves the next line to the compiler; kernels count on -3 */
    printf("%d %d\\n", (int)(a >> 1), (int)sizeof(int64_t));
    return 0;
}
"""
EXPECTED = "-3 8"


@dataclass(frozen=True)
class Finding:
    """One line. advice: how to get what is missing, or what it is for."""

    what: str
    found: str
    is_fine: bool
    is_required: bool
    advice: str = ""


def doctor(json: Json = False) -> None:
    """Say what is installed, what is missing, and how to get it.

    Exit code 1 if something is missing that is needed.

    Example: `mcutrain doctor`
    """
    findings = [
        Finding("mcutrain", mcutrain.__version__, True, True),
        Finding(
            "Python", platform.python_version(), sys.version_info >= (3, 10), True, "3.10 or newer"
        ),
        *(_package(name, True, f"pip install {name}") for name in REQUIRED),
        *(_package(name, False, advice) for name, advice in OPTIONAL.items()),
        _compiler(),
        _cache(),
        Finding("CPU features", ", ".join(_features()) or "none of the known", True, False),
        *(_tool(name, advice) for name, advice in TOOLS.items()),
    ]
    is_well = all(f.is_fine for f in findings if f.is_required)
    if json:
        show_json({"is_well": is_well, "findings": [asdict(f) for f in findings]})
    else:
        show_table(("", "found", ""), [_row(f) for f in findings], left=3)
        show(
            "everything that is needed is there"
            if is_well
            else "something that is needed is missing"
        )
    if not is_well:
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[str, str, str]:
    missing = "needed" if finding.is_required else "optional"
    advice = "" if finding.is_fine else f"{missing}: {finding.advice}"
    return finding.what, finding.found, advice


def _package(name: str, is_required: bool, advice: str) -> Finding:
    try:
        return Finding(name, version(name), True, is_required, advice)
    except PackageNotFoundError:
        return Finding(name, "missing", False, is_required, advice)


def _compiler() -> Finding:
    """The compiler that simulations use, tried on a small program."""
    from mcutrain.simulate.build import find_compiler

    advice = "apt-get install gcc, or pip install ziglang"
    try:
        compiler = find_compiler()
        name = f"{compiler.version()} ({compiler.origin})"
        with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
            printed = _run_program([*compiler.command], Path(folder))
    except (BuildError, OSError, subprocess.SubprocessError) as error:
        return Finding("C compiler", " ".join(str(error).split()), False, True, advice)
    if printed != EXPECTED:
        return Finding("C compiler", f"{name} computes {printed!r}", False, True, advice)
    return Finding("C compiler", name, True, True, advice)


def _run_program(command: list[str], folder: Path) -> str:
    source, program = folder / "check.c", folder / "check"
    source.write_text(PROGRAM, encoding="utf-8")
    build = [*command, "-std=c11", "-O2", str(source), "-o", str(program)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def _cache() -> Finding:
    from mcutrain_host.toolchain import cache_folder

    folder = cache_folder()
    advice = "set MCUTRAIN_CACHE to a folder that can be written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("cache", f"{folder}: {error.strerror}", False, True, advice)
    return Finding("cache", str(folder), True, True, advice)


def _features() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    words = set(text.split())
    return [name for name in CPU_FEATURES if name in words]


def _tool(name: str, advice: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, path or "missing", path is not None, False, advice)
