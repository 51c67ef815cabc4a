"""What all tests share: the shared folder, C compilers, how Hypothesis draws."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

# deadline=None: an example may compile C, whose time depends on the machine.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and data beside the repository; tests of it are marked `shared`."""
    path = Path(os.environ.get("MCUTRAIN_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"{path} is absent; MCUTRAIN_SHARED can name another place")
    return path


@pytest.fixture(scope="session")
def c_compilers() -> list[tuple[str, ...]]:
    """The command of every C compiler on this machine: gcc, clang, zig cc."""
    commands = [(name,) for name in ("gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    if not commands:
        pytest.skip("no C compiler: apt install gcc, or pip install ziglang")
    return commands
