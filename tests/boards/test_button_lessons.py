"""`teach --button`: what a click taught is brought to the folder, and replayed on the desk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.client import Device

import mcutrain
from mcutrain.codegen import Interface
from mcutrain.errors import BuildError, OptionError
from mcutrain.functions import button_lessons, teaching
from tests.boards.test_button import SAMPLES, press
from tests.boards.test_learning import (
    BURST,
    CLASSES,
    PLAIN,
    RING,
    SECONDS,
    OnChip,
    project,
    twin,
)
from tests.frontends.test_trigger import noise

KEPT = 1 << 14


class Person:
    """Presses and speaks while the host looks: an act for each wait between two looks."""

    def __init__(self, root: Path, interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = project(root, "nucleo-f446re", interface)
        self.pair, self.acts = OnChip(self.folder, twin(interface)), [lambda: None]
        self.seed = 0

        @contextmanager
        def connected(*_: Any) -> Iterator[Device]:
            yield self.pair.device

        monkeypatch.setattr(teaching, "connected", connected)
        monkeypatch.setattr(button_lessons.time, "sleep", self.wait)

    def wait(self, seconds: float) -> None:
        if self.acts:
            self.acts.pop(0)()

    def click(self) -> None:
        press(self.pair, 100)

    def hold(self) -> None:
        press(self.pair, 1100)

    def say(self) -> None:
        front = self.pair.board.ear.front
        self.seed += 1
        for _, count, loud in BURST:
            x = noise(front, [(count, loud)], self.seed)[: count * front.hop]
            self.pair.machine.sensor.play([[int(v)] for v in x])
            self.pair.machine.run(until_idle=True)

    def teach(self, folder: Path, *acts: Callable[[], None], **more: Any) -> teaching.Taught:
        self.acts = list(acts)
        return mcutrain.teach(self.folder, button=True, record=folder, check=True, wait=9, **more)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "lessons.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_clicks_are_recorded_and_replayed(
    projects_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class, one that a second click ended before, and one that was taken back."""
    person = Person(projects_root, replace(RING, keep_samples=KEPT), monkeypatch)
    click, say, hold = person.click, person.say, person.hold
    five = [say] * SAMPLES
    first = person.teach(tmp_path, click, say, say, click, click, *five)
    assert (first.kind, first.label, first.samples, first.agrees) == ("class", 2, 5, True)
    second = person.teach(tmp_path, say, click, *five)
    assert (second.kind, second.samples, second.agrees) == ("class", 5, True)
    third = person.teach(tmp_path, click, say, hold)
    assert (third.kind, third.label, third.samples, third.agrees) == ("undo", None, 0, True)
    assert third.position == first.position
    assert person.pair.device.read_state() == mcutrain.taught_state(person.folder, tmp_path)
    lines = lines_of(tmp_path)
    assert [line["kind"] for line in lines] == ["class", "class", "undo"]
    assert [line.get("stream") for line in lines[:2]] == ["streams/0000.wav", "streams/0001.wav"]
    assert (lines[0]["known"], lines[0]["steps"], lines[0]["replay"]) == (CLASSES, 4, 0)
    with pytest.raises(BuildError, match="the button taught nothing within 0 seconds"):
        mcutrain.teach(person.folder, button=True, record=tmp_path, wait=0)
    person.click()
    with pytest.raises(BuildError, match="awaits samples already"):
        person.teach(tmp_path)


@pytest.mark.timeout(SECONDS)
def test_what_comes_between_two_looks_is_a_sentence(
    projects_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For nobody knows which window is of which lesson."""
    person = Person(projects_root, RING, monkeypatch)
    click, say = person.click, person.say

    def at_once(*acts: Callable[[], None]) -> Callable[[], None]:
        return lambda: [act() for act in acts] and None

    for acts in (
        (click, at_once(say, say)),
        (at_once(click, say),),
        (click, say, at_once(say, click)),
        (click, say, at_once(click, click, say)),
    ):
        with pytest.raises(BuildError, match="came at once"):
            person.teach(tmp_path, *acts)
        assert not tmp_path.joinpath("lessons.jsonl").exists()
        if person.pair.device.learnt().left:
            click()
    again = person.teach(tmp_path, click, say, at_once(click, click), *[say] * SAMPLES)
    assert (again.samples, again.agrees) == (SAMPLES, True)


@pytest.mark.timeout(SECONDS)
def test_a_window_that_a_click_taught_is_recorded(
    projects_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without raw samples, too."""
    person = Person(projects_root, PLAIN, monkeypatch)
    for count in (1, 2):
        found = person.teach(tmp_path, person.say, person.click)
        assert (found.kind, found.label, found.samples) == ("lesson", CLASSES - 1, 1)
        assert found.agrees
        assert len(lines_of(tmp_path)) == count
    assert person.teach(tmp_path, person.hold).kind == "undo"
    assert "stream" not in lines_of(tmp_path)[0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"undo": True, "record": "lessons"}, "stands alone"),
        ({"name": "low", "record": "lessons"}, "stands alone"),
        ({"forget": True, "record": "lessons"}, "stands alone"),
        ({"samples": 3, "record": "lessons"}, "is chosen by the firmware"),
        ({"hear": "one.wav", "record": "lessons"}, "leave out forget"),
        ({}, "give record, too"),
    ],
)
def test_what_a_button_does_not_go_with_is_a_sentence(
    projects_root: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        mcutrain.teach(project(projects_root, "nucleo-f446re", PLAIN), button=True, **more)


@pytest.mark.timeout(SECONDS)
def test_what_a_click_awaited_is_given_up_by_a_lesson(
    projects_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody recorded it, so the desk could not remember it."""
    person = Person(projects_root, RING, monkeypatch)
    how: dict[str, Any] = {"steps": 9, "replay": 3, "learning_rate": 0.5, "label": 1}
    how |= {"record": tmp_path, "check": True}
    person.say()
    assert mcutrain.teach(person.folder, "other", **how).agrees
    person.click()
    person.say()
    assert person.pair.device.learnt().collected == 1
    assert mcutrain.teach(person.folder, "other", **how).agrees
    assert person.pair.device.learnt().left == 0
