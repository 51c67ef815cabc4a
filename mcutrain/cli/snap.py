"""mcutrain snap: labelled pictures of a camera, for watch or fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show_json, show_prose
from mcutrain.functions.run_options import SnapOptions


def snap(
    folder: Annotated[
        Path, shared_flags.argument("DIR", "The data set, with a folder for each class.")
    ],
    *,
    name: Annotated[
        str,
        shared_flags.option("Class of what the camera sees.", "--class", metavar="NAME"),
    ],
    taking: SnapOptions,
    json: shared_flags.Json = False,
) -> None:
    """Take pictures with a camera of this computer, as samples of a class.

    They become PNG files in the class's folder, which `watch` learns as they arrive, or `fit`.
    Picamera2 takes them on a Raspberry Pi, elsewhere OpenCV.

    Example: `mcutrain snap inbox/ --class cat --count 20 --every 2`
    """
    from mcutrain.functions.snapping import snap as snapped

    found = snapped(folder, name, taking=taking, listener=OnScreen(json))
    if json:
        show_json(found.to_dict())
    else:
        show_prose(found.summary())
