"""What all tests share: the shared folder, C compilers, a cache, the examples of Hypothesis."""

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.cache import cache_folder
from mcutrain_host.errors import CacheError
from mcutrain_host.toolchain import ZIG

REPOSITORY = Path(__file__).resolve().parents[1]
BYTECODE = REPOSITORY / ".pytest_cache" / "bytecode"

# Compiled Python, that of tests with their assertions, too, is kept from one run to the next: not
# in the tree, and also where PYTHONDONTWRITEBYTECODE is set. pytest rewrites all of Hypothesis,
# which takes a second, so this comes before it.
sys.dont_write_bytecode, sys.pycache_prefix = False, str(BYTECODE)

from tests.browser import chromium  # noqa: E402
from tests.drawing import (  # noqa: E402
    choose_examples,
    how_to_repeat,
    left_out_of_commit,
    slow_of_others,
)
from tests.in_process import Here  # noqa: E402

__all__ = ["chromium"]  # one for all: a process cannot have two

os.environ["COLUMNS"] = "120"  # tables of the command line look alike on every machine

# Tests run on all cores already. Threads that wait for each other's small matrices only spin: a
# third of the numpy reference's time.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# An analysis begins a process for each core, and each imports for seconds. In tests it is the only
# process, where they do not say how many it begins.
os.environ["LOKY_MAX_CPU_COUNT"] = "1"

# A shell starts background jobs deaf to Ctrl-C, which programs under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

OBJECTS_SECONDS = 3 * 24 * 3600
LIBRARIES_SECONDS = 24 * 3600
SWEEP_SECONDS = 6 * 3600
DISK_BYTES = 64 * 1024


def _objects() -> Path:
    """Compiled C, for three days: of the user, so that a fresh clone does not compile it again."""
    try:
        return cache_folder() / "tests" / "objects"
    except CacheError:  # a user without a home
        return REPOSITORY / ".pytest_cache" / "objects"


OBJECTS = _objects()
LIBRARIES = OBJECTS.with_name("libraries")
"""Linked of them. Networks that tests draw are others each time, and so are their libraries."""

TRAINING_HERE = {"cli", "frontends", "functions", "modules", "report", "selection", "trained"}
"""Packages of tests with commands that compare schemes."""

SEED = pytest.StashKey[int]()
WAITING = pytest.StashKey[int]()
"""How many slow tests this run leaves to `make test-rest`."""

UNMARKED_SECONDS = 2.0
"""A test that takes so long is told in CI, where it is not marked `slow`: a mark from 1 s on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test` runs a share of the slow tests, `make test-rest` the others."""
    parser.addoption(
        "--slow",
        choices=("all", "drawn", "rest"),
        default="all",
        help="of tests marked slow, run all; some, drawn by the commit; or only those not drawn",
    )


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its own option
def pytest_configure(config: pytest.Config) -> None:
    """Decide which examples Hypothesis draws, before any test is read."""
    config.stash[SEED] = choose_examples(config)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to draw the same examples again."""
    return how_to_repeat(config.stash[SEED])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The same behind a failure, where a reader begins; which tests wait, which want a mark."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(how_to_repeat(config.stash[SEED]))
    if os.environ.get("CI") and (names := unmarked(terminalreporter.stats.get("passed", ()))):
        terminalreporter.write_line(f"should be marked slow: {', '.join(names)}")
    if waiting := config.stash.get(WAITING, 0):
        terminalreporter.write_line(
            f"{waiting} slow tests wait for a later commit; make test-rest runs them"
        )


def unmarked(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Tests that took long, without their fixtures, and are not marked `slow`."""
    return [
        f"{report.nodeid} ({report.duration:.1f} s)"
        for report in reports
        if report.duration > UNMARKED_SECONDS and "slow" not in report.keywords
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Ask a process of pytest-xdist how many wait: this one collects nothing."""
    node.config.stash[WAITING] = getattr(node, "workeroutput", {}).get("waiting", 0)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Forget the bytecode of copies that earlier runs made in folders of their own, and old C."""
    if not hasattr(session.config, "workerinput"):  # of pytest-xdist
        temporary = Path(tempfile.gettempdir()).resolve()
        for folder in (BYTECODE / temporary.relative_to("/")).glob("pytest-of-*"):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (OBJECTS, LIBRARIES):
            folder.mkdir(parents=True, exist_ok=True)
        swept = OBJECTS.with_name("objects-swept")
        if not swept.exists() or swept.stat().st_mtime < time.time() - SWEEP_SECONDS:
            swept.touch()
            forget_old(OBJECTS, OBJECTS_SECONDS)
            forget_old(LIBRARIES, LIBRARIES_SECONDS)


def forget_old(folder: Path, seconds: float) -> None:
    """Looking at tens of thousands of files takes as long as a short test run."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another run was first
            if path.stat().st_mtime < time.time() - seconds:
                path.unlink()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Some cases of what is marked `draws`. Slow tests first: at the end no process waits long."""
    which = config.getoption("--slow", "all")
    left = left_out_of_commit(items)
    others = slow_of_others([item for item in items if item not in left], which)
    if left := left | others:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    if which == "drawn":
        config.stash[WAITING] = len(others)
        getattr(config, "workeroutput", {})["waiting"] = len(others)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """What collecting made stays to the end: do not look through it for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and data beside the repository; tests of it are marked `shared`."""
    path = Path(os.environ.get("MCUTRAIN_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"{path} is absent; MCUTRAIN_SHARED can name another place")
    return path


@pytest.fixture(scope="session")
def common_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all processes that share this run of the tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base  # of pytest-xdist


@pytest.fixture(scope="session", autouse=True)
def cache(common_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where mcutrain keeps results, not the user's own.

    Costs and choices of schemes are shared by all processes; compiled C by later runs, too. What
    decides an object is in its name: the compiler and its version, flags, and every text that it
    includes.
    """
    folder = tmp_path_factory.mktemp("cache")
    for name in ("costs", "automatic"):
        (common_folder / name).mkdir(exist_ok=True)
        (folder / name).symlink_to(common_folder / name)
    (folder / "objects").symlink_to(OBJECTS)
    (folder / "libraries").symlink_to(LIBRARIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCUTRAIN_CACHE", str(folder))
        yield folder


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where mcutrain keeps results in one test; of other tests it holds compiled C alone."""
    folder = tmp_path / "fresh-cache"
    folder.mkdir()
    (folder / "objects").symlink_to(OBJECTS)
    monkeypatch.setenv("MCUTRAIN_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module", autouse=True)
def _trains_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """Schemes that a command trains in processes are trained in this one, which need not start.

    Each process imports for a second. tests/experiments has them.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in TRAINING_HERE:
            patch.setattr("mcutrain.experiments.parallel._executor", Here)
        yield


@pytest.fixture(scope="session", autouse=True)
def _bytecode() -> Iterator[None]:
    """Commands that tests start compile no Python either: a third of a short one's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(BYTECODE))
        yield


@pytest.fixture(scope="session", autouse=True)
def _disk() -> Iterator[None]:
    """Nobody waits for the disk: thousands of small files, and no power cut that tests could see.

    That bytes are sent there before a file has its name is said by tests that note the calls.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: None)
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """64 KB, where the system lets us make such a disk."""
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs"]
    if os.geteuid() or subprocess.run(["mount", *options, place], capture_output=True).returncode:
        pytest.skip("a disk of its own needs root and mount")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture(scope="session")
def c_compilers() -> list[tuple[str, ...]]:
    """The command of every C compiler on this machine: gcc, clang, zig cc."""
    commands = [(name,) for name in ("gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        commands.append(ZIG)
    if not commands:
        pytest.skip("no C compiler: apt install gcc, or pip install 'mcutrain[compiler]'")
    return commands


@pytest.fixture(scope="session")
def sanitizing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """The compilers, gcc and clang, that can link with the sanitizers of build.SANITIZE."""
    from mcutrain.simulation.build import SANITIZE

    source = tmp_path_factory.mktemp("sanitize") / "main.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    found = {}
    for name in filter(shutil.which, ("gcc", "clang")):
        program = source.with_name(name)
        command = [name, *SANITIZE, str(source), "-o", str(program)]
        links = subprocess.run(command, capture_output=True).returncode == 0
        if links and subprocess.run([program], capture_output=True).returncode == 0:
            found[name] = (name,)
    return found
