"""A camera of this computer, by Picamera2 on a Raspberry Pi, else by OpenCV.

Both are optional, and found when a picture is asked for. Sources: the manual of Picamera2 (appendix
A: the format BGR888 has R, G, B in memory), OpenCV's VideoCapture, whose pictures are B, G, R.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import McutrainError

Picture = npt.NDArray[np.uint8]
"""(height, width, 3), RGB."""
PACKAGE = OPTIONAL["opencv-python-headless"]
WARMING_SECONDS = 1.0
"""Pictures are dropped for so long after a camera is opened, until its exposure has settled."""
WAITING_SECONDS = 10.0
"""What Picamera2 may take for a picture; OpenCV waits as long by itself."""
BUFFERED = 4
"""Pictures that a driver of Video4Linux may keep from before one was asked for."""
WHY_CLOSED = (
    "is it plugged in, is another program using it, and may you read it (the group video)? "
    "Choose another by --camera"
)


class Camera(Protocol):
    """A camera that is open."""

    def take(self) -> Picture:
        """Return a picture of now. What it raises is the library's."""

    def close(self) -> None:
        """Let other programs have it."""


class _PiCamera:
    """By Picamera2, which counts the cameras that libcamera finds."""

    def __init__(self, library: Any, number: int, size: Sequence[int]) -> None:
        known = len(library.Picamera2.global_camera_info())
        if number >= known:
            raise McutrainError(
                f"there is no camera {number}: Picamera2 finds {known}, counted from 0; "
                "look at its cable, or give another number by --camera"
            )
        self.camera = library.Picamera2(number)
        try:
            main = {"size": tuple(size), "format": "BGR888"}
            self.camera.configure(self.camera.create_still_configuration(main=main))
            self.camera.start()
        except BaseException:
            self.camera.close()
            raise

    def take(self) -> Picture:
        try:
            return np.asarray(self.camera.capture_array("main", wait=WAITING_SECONDS))
        except BaseException:
            with suppress(AttributeError):  # releases of before 2024-07 wait without a limit
                self.camera.cancel_all_and_flush()  # else closing waits for this picture, too
            raise

    def close(self) -> None:
        self.camera.close()


class _VideoCamera:
    """By OpenCV, which counts as the system does: N is /dev/videoN."""

    def __init__(self, library: Any, number: int, size: Sequence[int]) -> None:
        self.camera = library.VideoCapture(number)
        if not self.camera.isOpened():
            raise McutrainError(f"camera {number} cannot be opened: {WHY_CLOSED}")
        width, height = size
        self.camera.set(library.CAP_PROP_FRAME_WIDTH, width)
        self.camera.set(library.CAP_PROP_FRAME_HEIGHT, height)

    def take(self) -> Picture:
        for _ in range(BUFFERED):
            self.camera.grab()
        is_there, bgr = self.camera.read()
        if not is_there:
            raise RuntimeError("OpenCV read none")
        return np.ascontiguousarray(bgr[..., ::-1])

    def close(self) -> None:
        self.camera.release()


BY_PI, BY_OPENCV = zip(PACKAGE.modules, (_PiCamera, _VideoCamera), strict=True)
KINDS: Mapping[str, Sequence[tuple[str, Any]]] = {
    "auto": (BY_PI, BY_OPENCV),
    "picamera2": (BY_PI,),
    "opencv": (BY_OPENCV,),
}
"""By what is asked for: modules to import, in order, and what opens a camera with each."""


@contextmanager
def opened(number: int, size: Sequence[int], by: str) -> Iterator[Camera]:
    """A camera whose exposure has settled; closed in the end.

    size: width and height. by: `picamera2`, `opencv`, or `auto` for the first that is there.

    Raises McutrainError for a camera that is missing or busy, or if no package for it is there.
    """
    kind, library = _found(by)
    try:
        camera: Camera = kind(library, number, size)
    except McutrainError:
        raise
    except Exception as error:  # libcamera and OpenCV raise anything
        raise McutrainError(
            f"camera {number} cannot be opened ({_short(error)}): {WHY_CLOSED}"
        ) from error
    try:
        begin = time.monotonic()
        while time.monotonic() - begin < WARMING_SECONDS:
            picture_of(camera, number)
        yield camera
    finally:
        camera.close()


def picture_of(camera: Camera, number: int) -> Picture:
    """Return a picture of now. Raises McutrainError for a camera that gives none."""
    try:
        picture = camera.take()
    except Exception as error:
        raise McutrainError(
            f"camera {number} gives no picture ({_short(error)}): look at its cable, and whether "
            "another program is using it"
        ) from error
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise McutrainError(
            f"camera {number} gives {picture.dtype} pictures of shape {picture.shape}, no RGB: "
            "choose another by --camera, or for a USB camera --by opencv"
        )
    return picture


def _found(by: str) -> tuple[Any, Any]:
    """The first package that can be imported. Raises McutrainError."""
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")  # its warnings, of what we say ourselves
    broken = ""
    for name, kind in KINDS[by]:
        try:
            return kind, import_module(name)
        except Exception as error:  # of another numpy: ValueError
            is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
            broken = broken or ("" if is_missing else f"{name} ({_short(error)})")
    if broken:
        raise McutrainError(
            f"the camera's package {broken} cannot be imported: docs/boards.md says with which "
            "numpy it can"
        )
    raise McutrainError(
        f"{PACKAGE.missing}; on Raspberry Pi OS rather apt install python3-picamera2, and an "
        "environment made with --system-site-packages"
    )


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
