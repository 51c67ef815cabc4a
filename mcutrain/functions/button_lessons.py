"""Lessons that a board's button began, brought here as they are done."""

from __future__ import annotations

import time
from typing import Any

from mcutrain_host.client import Device
from mcutrain_host.errors import HostError
from mcutrain_host.protocol import LearntReport

from mcutrain.functions.heard import HeardLesson

POLL_SECONDS = 0.05


def by_button(device: Device, wait: float, heard: HeardLesson) -> tuple[str, int, dict[str, Any]]:
    """Wait for a lesson, or for one that is taken back. heard: gets its windows.

    Returns what it was as a line of lessons has it: its kind, the class, and how it was done. A
    lesson that a second click ends is none. Raises HostError where nothing comes in `wait` seconds.
    """
    stream = heard.followed(device)
    next(stream, None)
    before = device.learnt()
    if before.left:
        raise HostError("the board awaits samples already: end that by a click, then begin anew")
    seen, end = before, time.monotonic() + wait
    while True:
        next(stream, None)
        learnt = device.learnt()
        if learnt.failed != seen.failed:
            raise HostError(
                "the board could not write a window to its flash, and has stopped waiting for more"
            )
        if learnt.position < before.position and learnt.lessons == before.lessons:
            heard.forget()
            heard.raw = None
            return "undo", 0, {}
        _take(device, seen, learnt, heard)
        if learnt.lessons != before.lessons:
            next(stream, None)
            kind = "class" if learnt.collected != before.collected else "lesson"
            how = ("known", "steps", "replay", "mult_q31", "shift")
            return kind, learnt.label, {name: getattr(learnt, name) for name in how}
        seen = learnt
        if time.monotonic() > end:
            raise HostError(f"the button taught nothing within {wait:g} seconds")
        time.sleep(POLL_SECONDS)


def _take(device: Device, seen: LearntReport, learnt: LearntReport, heard: HeardLesson) -> None:
    """Take what was collected, or learnt, since the last look. Raises HostError for two at once."""
    fresh = learnt.collected - seen.collected
    is_lesson = learnt.lessons != seen.lessons
    is_clicked = fresh + learnt.left != seen.left  # which ends what was awaited, or begins it
    if is_clicked:
        heard.forget()
    if fresh + is_clicked > 1 or learnt.lessons - seen.lessons > 1:
        raise HostError(
            "two windows, or a click and a window, came at once, and one of them is lost: "
            "hold the button to take the lesson back, then do it more slowly"
        )
    if fresh or is_lesson:
        heard.take(device, learnt.frame)
