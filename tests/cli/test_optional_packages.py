"""What is not installed is a sentence that names the extra, before anything is read or computed."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcutrain_host.errors import BuildError
from mcutrain_host.packages import OPTIONAL, install
from mcutrain_host.toolchain import ZIG, compiler_version, find_host_compiler

from mcutrain import demo
from mcutrain.cli.doctor import required_packages
from mcutrain.cli.needed import NEEDS
from mcutrain.demo import MODEL
from mcutrain.demo import board as demo_board
from mcutrain.oracle.tflite import find_interpreter
from tests.cli.conftest import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
NOT_A_USERS = {"all", "docs", "test", "dev", "oracle-tflite"}
"""Extras that only this project's own tests and checks need, and the one that is several."""
Without = Callable[..., None]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Without]:
    """Makes packages absent for this process, also for what remembers what it has found."""
    find_interpreter.cache_clear()

    def forget(*names: str) -> None:
        for name in names:
            for module in OPTIONAL[name].modules:
                loaded = [known for known in sys.modules if known.startswith(f"{module}.")]
                for forgotten in (module, *loaded):
                    monkeypatch.setitem(sys.modules, forgotten, None)

    yield forget
    find_interpreter.cache_clear()


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the PATH."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements}


def test_the_table_of_optional_packages_is_that_of_the_extras() -> None:
    extras = PROJECT["optional-dependencies"]
    stated = {(p.name, p.extra) for p in OPTIONAL.values()}
    assert stated == {
        (name, extra)
        for extra, requirements in extras.items()
        if extra not in NOT_A_USERS
        for name in _names(requirements)
    }


def test_what_is_always_installed_is_no_compiler() -> None:
    assert "ziglang" not in _names(PROJECT["dependencies"])


NEEDED = {
    "tensorboardX": ("train", ".", "--data", "nowhere", "--tensorboard", "events"),
    "unicorn": ("board", "nowhere"),
    "uvicorn": ("train", ".", "--data", "nowhere", "--web"),
    "distributed": ("analyze", MODEL, "--data", "nowhere", "--backend", "dask"),
    "ray": ("analyze", MODEL, "--data", "nowhere", "--backend", "ray"),
    "ai-edge-litert": ("verify", MODEL),
    "pillow": ("simulate", MODEL, "--data", "images"),
    "opencv-python-headless": ("snap", "inbox", "--class", "cat"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_package_is_a_sentence_before_work_begins(
    run: Run, name: str, without: Without, tmp_path: Path
) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").touch()
    without(name)
    if name == "ai-edge-litert":
        from mcutrain.oracle import tflite as oracle_tflite

        oracle_tflite.find_interpreter.cache_clear()
    sentence = run(*NEEDED[name]).sentence
    assert OPTIONAL[name].missing in sentence
    assert f"pip install 'mcutrain[{OPTIONAL[name].extra}]'" in sentence
    assert sorted(p.name for p in tmp_path.iterdir()) == ["images"]


def test_all_that_a_line_needs_is_named_at_once(run: Run, without: Without, tmp_path: Path) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").touch()
    missing = ("pillow", "tensorboardX", "uvicorn")
    without(*missing)
    line = ("train", ".", "--data", "images", "--tensorboard", "events", "--web")
    sentence = run(*line).sentence
    assert all(name in sentence for name in missing)
    assert sentence.endswith("pip install 'mcutrain[images,tensorboard,web]'")


def test_a_camera_and_its_files_are_named_at_once(run: Run, without: Without) -> None:
    without("pillow", "opencv-python-headless")
    sentence = run("snap", "inbox", "--class", "cat").sentence
    assert sentence.endswith("pip install 'mcutrain[camera,images]'")


@pytest.mark.usefixtures("no_compiler")
def test_a_missing_compiler_is_named_beside_what_else_is_missing(
    run: Run, without: Without, tmp_path: Path
) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").touch()
    without("ziglang", "pillow")
    sentence = run("simulate", MODEL, "--data", "images").sentence
    assert sentence.endswith("pip install 'mcutrain[compiler,images]'")
    assert "compiler" not in run("info", "nowhere").sentence


def test_the_extra_of_all_holds_what_any_line_may_need() -> None:
    (line,) = PROJECT["optional-dependencies"]["all"]
    extras = set(re.findall(r"[\w-]+", line)) - {"mcutrain"}
    apart = {"distributed", "ray", "opencv-python-headless"}  # clusters, cameras
    assert {OPTIONAL[name].extra for name in NEEDS if name not in apart} <= extras
    assert {OPTIONAL[name].extra for name in apart}.isdisjoint(extras)


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    "command",
    [
        ("demo",),
        ("simulate", MODEL, "--data", "nowhere"),
        ("analyze", MODEL, "--data", "nowhere", "--by", "training"),
        ("compare", MODEL, "--data", "nowhere", "--sram", "64K"),
    ],
    ids=lambda command: command[0],
)
def test_without_any_compiler_the_sentence_says_what_to_install(
    run: Run, without: Without, command: tuple[object, ...]
) -> None:
    without("ziglang")
    sentence = run(*command).sentence
    assert "apt-get install gcc" in sentence
    assert "pip install 'mcutrain[compiler]'" in sentence


@pytest.mark.usefixtures("no_compiler")
def test_zig_stands_in_where_the_system_has_no_compiler(without: Without) -> None:
    if not OPTIONAL["ziglang"].is_installed:
        pytest.skip("pip install 'mcutrain[compiler]'")
    assert find_host_compiler() == ZIG
    assert compiler_version(ZIG) == compiler_version((sys.executable, "-m", "ziglang", "cc"))
    without("ziglang")
    with pytest.raises(BuildError, match="there is no C compiler"):
        find_host_compiler()


BOARD_PACKAGES = ("unicorn", "stm32loader")


@pytest.mark.parametrize("left_out", [("unicorn",), BOARD_PACKAGES])
def test_the_demo_says_at_the_start_what_it_leaves_out_and_does_the_rest(
    run: Run, without: Without, left_out: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "QUICK", demo.Size(16, 10, 1, 1))
    without(*left_out)
    outcome = run("demo", "--quick", "--output", "c")
    assert outcome.code == 0, outcome.err
    start, _, rest = outcome.out.partition("Accuracy on 10 test images")
    assert "Left out: the virtual board" in start
    assert install(OPTIONAL[name] for name in left_out) in start
    assert all(name in start for name in left_out)
    assert "bytes of saved state equal the C's" in rest
    assert "NUCLEO" not in rest
    assert "firmware" not in rest
    assert Path("c/report.html").exists()
    assert "open in a browser" in rest


def test_the_demos_facts_say_that_there_was_no_board(
    run: Run, without: Without, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "QUICK", demo.Size(16, 10, 1, 1))
    without("stm32loader")
    facts = run("demo", "--quick", "--json").json
    assert facts["same_bits"]
    assert facts["board"] is None
    assert Path(facts["report"]).exists()


def test_the_board_of_the_demo_needs_a_compiler_for_arm(
    without: Without, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ziglang" not in [package.name for package in demo_board.missing()]
    without("ziglang")
    assert "ziglang" in [package.name for package in demo_board.missing()]


def test_doctor_lists_every_package_with_what_it_is_for(run: Run, without: Without) -> None:
    without("unicorn")
    findings = {f["what"]: f for f in run("doctor", "--json").json["findings"]}
    for package in OPTIONAL.values():
        found = findings[package.name]
        assert not found["is_required"]
        assert found["purpose"] == package.purpose
        assert found["advice"] == f"pip install 'mcutrain[{package.extra}]'"
        assert found["is_fine"] == package.is_installed
    assert not findings["unicorn"]["is_fine"]
    for name in required_packages():
        assert findings[name]["is_required"]


def test_what_is_required_is_what_the_project_states() -> None:
    stated = [line for line in PROJECT["dependencies"] if ";" not in line]
    assert set(required_packages()) == _names(stated)
