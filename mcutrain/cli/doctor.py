"""mcutrain doctor: what is installed, what is missing, how to get it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer
from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL, Package, install

import mcutrain
from mcutrain.cli.output import show, show_json, show_table
from mcutrain.cli.shared_flags import Json
from mcutrain.errors import BuildError

TOOLS = {
    "arm-none-eabi-gcc": ("firmware for Cortex-M (else zig)", "gcc-arm-none-eabi"),
    "qemu-system-arm": ("a second emulator beside Unicorn", "qemu-system-arm"),
    "aarch64-linux-gnu-gcc": ("the Raspberry Pi's program (else zig)", "gcc-aarch64-linux-gnu"),
    "qemu-aarch64": ("trying that program here", "qemu-user"),
}
"""Programs: what each is for, and Debian's package of it."""
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
    """One line. purpose: what it is for, if it is optional. advice: how to get what is missing."""

    what: str
    found: str
    is_fine: bool
    is_required: bool
    advice: str = ""
    purpose: str = ""


def doctor(json: Json = False) -> None:
    """Show what is installed, what is missing, what it is for, and how to get it.

    Exit code 1 if something is missing that is needed.

    Example: `mcutrain doctor`
    """
    findings = [
        Finding("mcutrain", mcutrain.__version__, True, True),
        Finding(
            "Python", platform.python_version(), sys.version_info >= (3, 10), True, "3.10 or newer"
        ),
        *(_required(name) for name in required_packages()),
        _compiler(),
        _cache(),
        Finding("CPU features", ", ".join(_features()) or "none of the known", True, False),
        *(_optional(package) for package in OPTIONAL.values()),
        *(_tool(name, purpose, package) for name, (purpose, package) in TOOLS.items()),
    ]
    is_well = all(f.is_fine for f in findings if f.is_required)
    if json:
        show_json({"is_well": is_well, "findings": [asdict(f) for f in findings]})
    else:
        needed = [f for f in findings if not f.purpose]
        show_table(("", "found", ""), [_row(f) for f in needed], left=3)
        optional = [(f.what, f.found, f.purpose, _advice(f)) for f in findings if f.purpose]
        show_table(("optional", "found", "for", "if missing"), optional, left=4)
        show(
            "everything that is needed is there"
            if is_well
            else "something that is needed is missing"
        )
    if not is_well:
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[str, str, str]:
    return finding.what, finding.found, f"needed: {_advice(finding)}" if _advice(finding) else ""


def _advice(finding: Finding) -> str:
    """Return how to get what is missing."""
    return "" if finding.is_fine else finding.advice


def required_packages() -> tuple[str, ...]:
    """Return what every installation has, in the order of pyproject.toml."""
    lines = [line for line in requires("mcutrain") or () if ";" not in line]  # no extra, no marker
    return tuple(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines)


def _required(name: str) -> Finding:
    try:
        return Finding(name, version(name), True, True)
    except PackageNotFoundError:
        return Finding(name, "missing", False, True, f"pip install {name}")


def _optional(package: Package) -> Finding:
    advice, purpose = install((package,)), package.purpose
    if not package.is_installed:
        return Finding(package.name, "missing", False, False, advice, purpose)
    found = "installed"  # by another distribution, as tflite-runtime in place of ai-edge-litert
    with suppress(PackageNotFoundError):
        found = version(package.name)
    return Finding(package.name, found, True, False, advice, purpose)


def _compiler() -> Finding:
    """The compiler that simulations use, tried on a small program."""
    from mcutrain.simulation.build import find_compiler

    advice = f"apt-get install gcc, or {install((OPTIONAL['ziglang'],))}"
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
    from mcutrain_host.cache import cache_folder, check_cache
    from mcutrain_host.errors import CacheError

    advice = "set MCUTRAIN_CACHE to a folder that can be written"
    try:
        check_cache()
    except CacheError as error:
        return Finding("cache", f"{error.folder}: {error.reason}", False, True, advice)
    return Finding("cache", str(cache_folder()), True, True, advice)


def _features() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    words = set(text.split())
    return [name for name in CPU_FEATURES if name in words]


def _tool(name: str, purpose: str, package: str) -> Finding:
    path, advice = shutil.which(name), f"apt-get install {package}"
    return Finding(name, path or "missing", path is not None, False, advice, purpose)
