"""The optional packages that a command line needs: all that are missing are named at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from mcutrain_host.packages import OPTIONAL, install

from mcutrain.errors import McutrainError

FILES_LOOKED_AT = 200
"""Of a folder; what is larger is not listed twice for this question."""
DATA = ("data", "calibration", "add")
Typed = Mapping[str, Any]


def check_packages(command: str, typed: Typed) -> None:
    """Raise McutrainError if packages are missing that a command needs with these values.

    typed: values by the names of parameters. One missing package is left to whoever needs it, whose
    sentence knows more; several would be found out one after the other.
    """
    missing = [
        package
        for package in OPTIONAL.values()
        if package.name in NEEDS
        and not package.is_installed
        and NEEDS[package.name](command, typed)
    ]
    if len(missing) > 1:
        purposes = ", ".join(f"{package.name} ({package.purpose})" for package in missing)
        raise McutrainError(
            f"this command line needs packages that are not installed: {purposes}: "
            f"{install(missing)}"
        )


def _reads(package: str, typed: Typed) -> bool:
    from mcutrain.data import NEEDED_BY  # slow to import

    return any(file.suffix.lower() in NEEDED_BY[package] for file in _files(typed))


def _files(typed: Typed) -> Iterator[Path]:
    for name in DATA:
        place = typed.get(name)
        if not isinstance(place, str | Path):
            continue
        yield Path(place)
        if Path(place).is_dir():
            yield from islice(Path(place).rglob("*"), FILES_LOOKED_AT)


def _builds_for_host(command: str, _: Typed) -> bool:
    from mcutrain_host.errors import BuildError
    from mcutrain_host.toolchain import find_host_compiler

    try:
        find_host_compiler()
    except BuildError:
        return command in COMPILING
    return False


COMPILING = ("compare", "fit", "proxies", "simulate")
NEEDS: Mapping[str, Callable[[str, Typed], bool]] = {
    "ziglang": _builds_for_host,
    "unicorn": lambda command, typed: command == "board" or bool(typed.get("emulator")),
    "pillow": lambda command, typed: command == "snap" or _reads("pillow", typed),
    "opencv-python-headless": lambda command, _: command == "snap",
    "soundfile": lambda _, typed: _reads("soundfile", typed),
    "pyarrow": lambda _, typed: _reads("pyarrow", typed),
    "tensorboardX": lambda _, typed: typed.get("tensorboard") is not None,
    "uvicorn": lambda _, typed: bool(typed.get("web")),
    "distributed": lambda _, typed: typed.get("backend") == "dask",
    "ray": lambda _, typed: typed.get("backend") == "ray",
}
"""By package: whether a command needs it with these values."""
