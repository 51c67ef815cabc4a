"""What cppcheck, with its MISRA addon, and clang-tidy find in an emitted program, by rule.

    make review
    .venv/bin/python benchmarks/review.py [--model MODEL --scheme SCHEME] [--seconds 900]

A program that is not installed is said and skipped.
The program is in plain C and can return in the middle of a step. Tables of weights are left out.
docs/misra.md says why what is left is left. Takes five minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from mcutrain import demo
from mcutrain.functions.generating import generate

CPPCHECK = (
    *("cppcheck", "--std=c11", "--enable=warning,style,performance,portability", "--quiet"),
    *("--max-configs=1", "-D__has_include(x)=0", "--addon=misra", "-I.", "--template={id}"),
)
TIDY = (
    "clang-tidy",
    "--quiet",
    "--checks=-*,bugprone-*,cert-*,clang-analyzer-*,portability-*,"
    "-bugprone-easily-swappable-parameters",
)
CHECK = re.compile(r"warning: .*\[(.+)\]$", re.MULTILINE)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--seconds", type=int, default=900, help="for each tool")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        generate(options.model, scratch, options.scheme, isa="portable", budgeted=True)
        folder = Path(scratch) / "src"
        files = sorted(p.name for p in folder.glob("*.c") if "constants" not in p.name)
        if version("cppcheck"):
            found = output([*CPPCHECK, *files], folder, options.seconds).stderr.split()
            show(f"cppcheck, {len(files)} files", Counter(found))
        if version("clang-tidy"):
            tidy = [*TIDY, *files, "--", "-std=c11", "-I."]
            said = output(tidy, folder, options.seconds).stdout
            show(f"clang-tidy, {len(files)} files", Counter(CHECK.findall(said)))


def version(program: str) -> bool:
    """Print a tool's version, or that it is skipped; whether it is there."""
    if shutil.which(program) is None:
        print(f"{program} skipped: it is not installed (apt install {program})")
        return False
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    print(re.search(r"\S.*\d+\.\d.*", said)[0])
    return True


def output(command: list[str], folder: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    """What a tool says."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)


def show(title: str, found: Counter[str]) -> None:
    """Most frequent first."""
    print(f"\n{title}: {sum(found.values())}")
    for name, count in found.most_common():
        print(f"{count:6}  {name}")


if __name__ == "__main__":
    main()
