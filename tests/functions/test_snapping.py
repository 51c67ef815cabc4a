"""Pictures of a camera become files of their class: by false cameras, as no test has a real one."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mcutrain_host.files
import numpy as np
import pytest
from PIL import Image

import mcutrain
from mcutrain.demo import MODEL
from mcutrain.errors import ArgumentError, DataError, McutrainError
from mcutrain.functions import cameras
from tests.cli.conftest import Run, run

__all__ = ["run"]
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
WIDTH, HEIGHT = 6, 4


@dataclass
class World:
    """What there is to see, and what happens to cameras. now: seconds, also the blue of a corner.

    broken: raised for each picture behind the first `whole`; None: there is none. gives: a size
    that the camera gives, whatever was asked for.
    """

    monkeypatch: pytest.MonkeyPatch
    now: float = 0.0
    cameras: int = 1
    is_busy: bool = False
    whole: int = 1_000
    broken: BaseException | None = None
    gives: tuple[int, int] | None = None
    shape: tuple[int, ...] = (3,)
    taken: int = 0
    open: int = 0
    flushed: int = 0
    slept: list[float] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def see(self, size: tuple[int, int], seen_at: float) -> Any:
        """RGB, with a red, a green and a blue pixel; one tells the time."""
        width, height = self.gives or size
        picture = np.zeros((height, width, 3), np.uint8)
        picture[0, :3] = RED, GREEN, BLUE
        picture[1, 0] = int(seen_at)
        return picture[..., 0] if self.shape == () else picture

    def check(self) -> bool:
        """Whether there is another picture."""
        self.before()
        self.taken += 1
        if self.taken <= self.whole:
            return True
        if self.broken is not None:
            raise self.broken
        return False

    def install(self, *modules: ModuleType) -> None:
        """Make these importable, and no other camera package."""
        for name in cameras.PACKAGE.modules:
            self.monkeypatch.setitem(sys.modules, name, None)
        for module in modules:
            module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
            self.monkeypatch.setitem(sys.modules, module.__name__, module)


class FalseVideoCapture:
    """It gives B, G, R, and pictures that waited since the last one was read."""

    world: World

    def __init__(self, number: int) -> None:
        self.is_open = number < self.world.cameras and not self.world.is_busy
        self.size = {3: 640, 4: 480}
        self.waiting = [self.world.now] * 4
        self.world.open += self.is_open

    def isOpened(self) -> bool:  # noqa: N802
        return self.is_open

    def set(self, what: int, value: float) -> bool:
        self.size[what] = int(value)
        return True

    def grab(self) -> bool:
        self.seen_at = self.waiting.pop(0) if self.waiting else self.world.now
        return True

    def read(self) -> tuple[bool, Any]:
        self.grab()
        if not self.world.check():
            return False, None
        self.waiting = [self.world.now] * 4
        return True, self.world.see((self.size[3], self.size[4]), self.seen_at)[..., ::-1]

    def release(self) -> None:
        self.world.open -= 1


class FalsePicamera2:
    """Names of its formats say a word's bytes from the top: BGR888 is R, G, B in memory."""

    world: World
    main: dict[str, Any]
    is_started = False

    def __init__(self, number: int) -> None:
        if self.world.is_busy:
            raise RuntimeError("Camera __init__ sequence did not complete.")
        assert number < self.world.cameras
        self.world.open += 1

    @classmethod
    def global_camera_info(cls) -> list[dict[str, Any]]:
        return [{"Num": i} for i in range(cls.world.cameras)]

    def create_still_configuration(self, main: dict[str, Any]) -> dict[str, Any]:
        return {"main": main}

    def configure(self, configuration: dict[str, Any]) -> None:
        self.main = configuration["main"]
        if self.main["size"][0] > 5000:
            raise RuntimeError("Configuration failed")

    def start(self) -> None:
        self.is_started = True

    def capture_array(self, name: str, wait: float) -> Any:
        assert (name, self.is_started) == ("main", True)
        if not self.world.check():
            raise TimeoutError
        rgb = self.world.see(self.main["size"], self.world.now)
        return rgb if self.main["format"] == "BGR888" else rgb[..., ::-1]

    def cancel_all_and_flush(self) -> None:
        self.world.flushed += 1

    def close(self) -> None:
        self.world.open -= 1


def opencv(world: World) -> ModuleType:
    """A false OpenCV."""
    module = ModuleType("cv2")
    kind = type("VideoCapture", (FalseVideoCapture,), {"world": world})
    vars(module).update(VideoCapture=kind, CAP_PROP_FRAME_WIDTH=3, CAP_PROP_FRAME_HEIGHT=4)
    return module


def picamera2(world: World) -> ModuleType:
    """A false Picamera2."""
    module = ModuleType("picamera2")
    vars(module).update(Picamera2=type("Picamera2", (FalsePicamera2,), {"world": world}))
    return module


BOTH = pytest.mark.parametrize("package", [opencv, picamera2])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(monkeypatch)
    monkeypatch.setattr(cameras, "WARMING_SECONDS", 0.0)
    return found


def stop_clock(world: World) -> None:
    clock = SimpleNamespace(sleep=world.sleep, monotonic=lambda: world.now)
    world.monkeypatch.setattr("mcutrain.functions.snapping.time", clock)


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        assert (image.format, image.mode) == ("PNG", "RGB")
        return np.asarray(image)


@BOTH
def test_red_is_red(run: Run, world: World, tmp_path: Path, package: Any) -> None:
    world.install(package(world))
    size = f"{WIDTH}x{HEIGHT}"
    outcome = run("snap", "inbox", "--class", "cat/lynx", "--size", size, "--json")
    assert outcome.json == {"files": ["inbox/cat-lynx/00001.png"], "size": [WIDTH, HEIGHT]}
    assert outcome.err == ""
    picture = pixels(tmp_path / "inbox" / "cat-lynx" / "00001.png")
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert [tuple(p) for p in picture[0, :3].tolist()] == [RED, GREEN, BLUE]
    assert world.open == 0


@pytest.mark.parametrize(
    ("by", "opened"), [("auto", "picamera2"), ("picamera2", "picamera2"), ("opencv", "cv2")]
)
def test_picamera2_takes_them_where_both_are_there(
    world: World, tmp_path: Path, by: Any, opened: str
) -> None:
    modules = [opencv(world), picamera2(world)]
    for module in modules:
        if module.__name__ != opened:
            vars(module).clear()
            module.__name__ = "picamera2" if opened == "cv2" else "cv2"
    world.install(*modules)
    assert mcutrain.snap(tmp_path, "cat", by=by).size == (640, 480)


def test_numbers_go_on_and_each_picture_is_told(run: Run, world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    (tmp_path / "inbox" / "cat").mkdir(parents=True)
    for name in ("9.jpg", "00003.png", "IMG_7000.png", "²000.png"):
        (tmp_path / "inbox" / "cat" / name).touch()
    outcome = run(
        "snap", "inbox", "--class", "cat", "--count", 2, "--every", "0.01", "--size", "8x8"
    )
    assert outcome.err == "cat/00010.png: 1 of 2\ncat/00011.png: 2 of 2\n"
    assert outcome.out == "2 pictures of 8x8: inbox/cat\n"
    assert {"00010.png", "00011.png"} < {p.name for p in (tmp_path / "inbox" / "cat").iterdir()}


@BOTH
def test_pictures_are_of_their_time(world: World, tmp_path: Path, package: Any) -> None:
    """A driver keeps pictures from before one was asked for: they are passed over."""
    world.install(package(world))
    stop_clock(world)
    found = mcutrain.snap(tmp_path, "cat", count=3, every=20, size=(4, 4))
    assert [int(pixels(file)[1, 0, 0]) for file in found.files] == [0, 20, 40]
    assert world.slept == [0, 20, 20]


def test_a_slow_picture_is_followed_at_once_and_no_other_is_hurried(
    world: World, tmp_path: Path
) -> None:
    world.install(picamera2(world))
    stop_clock(world)
    took = iter((17, 0, 0))
    world.before = lambda: world.sleep(next(took))
    mcutrain.snap(tmp_path, "cat", count=3, every=5, size=(4, 4))
    assert world.slept == [0, 17, 0, 0, 5, 0]


def test_a_camera_warms_up(world: World, tmp_path: Path) -> None:
    world.install(picamera2(world))
    world.monkeypatch.setattr(cameras, "WARMING_SECONDS", 3.0)
    clock = SimpleNamespace(monotonic=lambda: world.now)
    world.monkeypatch.setattr(cameras, "time", clock)
    world.before = lambda: world.sleep(1)
    assert int(pixels(mcutrain.snap(tmp_path, "cat", size=(4, 4)).files[0])[1, 0, 0]) == 4


def test_no_half_picture_has_a_name_that_watch_reads(world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    seen: list[list[str]] = []
    sync = mcutrain_host.files.sync

    def look(path: Path) -> None:
        if not path.is_dir():
            seen.append([p.name for p in path.parent.iterdir() if not p.name.startswith(".")])
        sync(path)

    world.monkeypatch.setattr(mcutrain_host.files, "sync", look)
    mcutrain.snap(tmp_path, "cat", count=2, every=0.001, size=(4, 4))
    assert seen == [[], ["00001.png"]]


@BOTH
def test_ctrl_c_leaves_whole_pictures(run: Run, world: World, tmp_path: Path, package: Any) -> None:
    world.install(package(world))
    world.whole, world.broken = 2, KeyboardInterrupt()
    line = ("snap", "inbox", "--class", "cat", "--count", 9, "--every", "0.001", "--size", "4x4")
    outcome = run(*line)
    assert outcome.code == 130
    assert outcome.err.endswith("cat/00002.png: 2 of 9\nmcutrain: interrupted\n")
    files = sorted((tmp_path / "inbox" / "cat").iterdir())
    assert [pixels(file).shape for file in files] == [(4, 4, 3)] * 2
    assert world.open == 0


def test_a_camera_of_other_sizes_is_told(run: Run, world: World) -> None:
    world.install(opencv(world))
    world.gives = (16, 12)
    outcome = run("snap", "inbox", "--class", "cat", "--count", 2, "--every", "0.001")
    assert outcome.err.count("note: the camera gives pictures of 16x12, not of 640x480") == 1
    assert outcome.out == "2 pictures of 16x12: inbox/cat\n"


FAULTS: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, str]]] = {
    "missing": (
        {},
        ("--camera", 1),
        {
            "cv2": "camera 1 cannot be opened",
            "picamera2": "there is no camera 1: Picamera2 finds 1",
        },
    ),
    "none": (
        {"cameras": 0},
        (),
        {
            "cv2": "camera 0 cannot be opened",
            "picamera2": "there is no camera 0: Picamera2 finds 0",
        },
    ),
    "busy": (
        {"is_busy": True},
        (),
        {
            "cv2": "camera 0 cannot be opened: is it plugged in, is another program using it",
            "picamera2": "camera 0 cannot be opened (Camera __init__ sequence did not complete.):",
        },
    ),
    "no frame": (
        {"whole": 0},
        (),
        {
            "cv2": "camera 0 gives no picture (OpenCV read none): look at its cable",
            "picamera2": "camera 0 gives no picture (TimeoutError): look at its cable",
        },
    ),
    "error": (
        {"whole": 0, "broken": ValueError("bad\nluck")},
        (),
        dict.fromkeys(("cv2", "picamera2"), "camera 0 gives no picture (bad): look"),
    ),
}


@BOTH
@pytest.mark.parametrize("fault", FAULTS)
def test_a_camera_that_cannot_is_a_sentence(
    run: Run, world: World, tmp_path: Path, fault: str, package: Any
) -> None:
    facts, flags, says = FAULTS[fault]
    vars(world).update(facts)
    module = package(world)
    world.install(module)
    sentence = run("snap", "inbox", "--class", "cat", *flags).sentence
    assert sentence.startswith(says[module.__name__])
    assert list(tmp_path.iterdir()) == []
    assert world.open == 0
    assert world.flushed == (package is picamera2 and not world.whole)


def test_a_camera_that_fails_later_keeps_what_it_gave(world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    world.whole = 1
    with pytest.raises(McutrainError, match="gives no picture"):
        mcutrain.snap(tmp_path, "cat", count=2, every=0.001, size=(4, 4))
    assert [p.name for p in (tmp_path / "cat").iterdir()] == ["00001.png"]


def test_a_picture_without_colours_is_refused(world: World, tmp_path: Path) -> None:
    world.install(picamera2(world))
    world.shape = ()
    with pytest.raises(McutrainError, match=r"shape \(480, 640\), no RGB.*--by opencv"):
        mcutrain.snap(tmp_path, "cat")


def test_a_camera_that_refuses_a_size_is_closed(world: World, tmp_path: Path) -> None:
    world.install(picamera2(world))
    with pytest.raises(McutrainError, match=r"cannot be opened \(Configuration failed\)"):
        mcutrain.snap(tmp_path, "cat", size=(6000, 4))
    assert world.open == 0


def test_a_package_of_another_numpy_is_passed_over_or_told(world: World, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    text = "raise ValueError('numpy.dtype size changed, may indicate …')\n"
    (packages / "picamera2.py").write_text(text, encoding="utf-8")
    world.monkeypatch.syspath_prepend(packages)
    world.install(opencv(world))
    world.monkeypatch.delitem(sys.modules, "picamera2")
    assert len(mcutrain.snap(tmp_path, "cat").files) == 1
    with pytest.raises(McutrainError, match=r"picamera2 \(numpy.dtype size changed, .*boards.md"):
        mcutrain.snap(tmp_path, "cat", by="picamera2")
    world.install()
    with pytest.raises(McutrainError, match=r"mcutrain\[camera\].*python3-picamera2"):
        mcutrain.snap(tmp_path, "cat", by="opencv")


@pytest.mark.parametrize(
    "name", ["", "  ", ".hidden", "../up", "a\nb", "a\0b", "\udce9", "é" * 128]
)
def test_a_name_that_is_no_folders_is_refused(world: World, tmp_path: Path, name: str) -> None:
    world.install(opencv(world))
    with pytest.raises(DataError, match="the class name"):
        mcutrain.snap(tmp_path / "inbox", name)
    assert (world.taken, list(tmp_path.iterdir())) == (0, [])


def test_without_pillow_no_camera_is_opened(world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    world.monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"mcutrain\[images\]"):
        mcutrain.snap(tmp_path, "cat")
    assert world.taken == 0


def test_a_file_in_the_place_of_the_folder_is_told(world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    (tmp_path / "inbox").touch()
    with pytest.raises(McutrainError, match="inbox is a file, no folder"):
        mcutrain.snap(tmp_path / "inbox", "cat")
    assert world.taken == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--size", "640"), "'640' is no size such as 640x480"),
        (("--size", "640x"), "'640x' is no size such as 640x480"),
        (("--size", "-4x4"), "'-4x4' is no size such as 640x480"),
        (("--size", "640x480x3"), "'640x480x3' is no size such as 640x480"),
        (("--size", "0x4"), "must be at least 1"),
        (("--size", "4x8001"), "at most 8,000"),
        (("--count", "0"), "must be at least 1"),
        (("--every", "0"), "must be above 0"),
        (("--camera", "-1"), "must be at least 0"),
        (("--by", "opencv2"), "did you mean 'opencv'?"),
    ],
)
def test_flags_that_make_no_sense_are_refused(run: Run, flags: tuple[str, ...], says: str) -> None:
    outcome = run("snap", "inbox", "--class", "cat", *flags)
    assert outcome.code == 2
    assert says in " ".join(outcome.err.replace("│", " ").split())
    with pytest.raises(ArgumentError, match="give width and height"):
        mcutrain.snap("inbox", "cat", size=(1, 2, 3))


@pytest.mark.slow
def test_watch_learns_what_was_taken(world: World, tmp_path: Path) -> None:
    world.install(opencv(world))
    model, inbox = MODEL, tmp_path / "inbox"
    names = ("T-shirt/top", "Trouser")
    for name in names:
        mcutrain.snap(inbox, name, size=(40, 30))
    assert sorted(p.name for p in inbox.iterdir()) == ["T-shirt-top", "Trouser"]
    found = mcutrain.watch(model, inbox, tmp_path / "out", "head", replay=0, once=True)
    assert (found.images, found.unreadable) == (len(names), ())
