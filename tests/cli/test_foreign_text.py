"""What boards, adapters and files call themselves reaches no terminal as a command."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from mcutrain_host import ports
from mcutrain_host.protocol import Identity, Rate, Status
from mcutrain_host.trainer import Lessons
from rich.console import Console

from mcutrain.cli import output
from mcutrain.cli.board_screen import watching_board
from tests.cli.conftest import Run
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_tcp

LINK = "\x1b]8;;http://example.com\x1b\\click\x1b]8;;\x1b\\"
MARKUP = "[/red] [link=file:///etc]x[/link] :bomb:"
TURNED = "\u202egnp\x9b2J"
SHOWN = "\\x1b]8;;http://example.com\\x1b\\click\\x1b]8;;\\x1b\\"


def identity() -> Identity:
    _, body = FakeDevice()._identify(b"")
    return replace(Identity.parse(body), board=LINK, model=MARKUP, scheme=TURNED)


@pytest.fixture
def board() -> Iterator[str]:
    device = FakeDevice()
    device._identify = lambda body: (Status.OK, identity().pack())  # type: ignore[method-assign]
    with on_tcp(device.receive) as url:
        yield url


def is_clean(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_monitor_shows_names_as_they_are_spelt(run: Run, board: str) -> None:
    found = run("monitor", "--port", board, "--once")
    assert is_clean(found.out + found.err)
    assert SHOWN in found.out
    assert MARKUP in found.out
    assert "\\u202egnp\\x9b2J" in found.out


def test_monitor_prints_json_that_a_terminal_does_not_obey(run: Run, board: str) -> None:
    found = run("monitor", "--port", board, "--once", "--json")
    assert is_clean(found.out)
    assert found.json["model"] == MARKUP


def test_ports_shows_boards_and_adapters_as_they_are_spelt(
    run: Run, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = type("Port", (), {"device": board, "description": LINK, "serial_number": TURNED})
    port.vid = port.pid = None  # type: ignore[attr-defined]
    monkeypatch.setattr(ports.list_ports, "comports", lambda: [port])
    for flags in ((), ("--probe",), ("--probe", "--json")):
        found = run("ports", *flags)
        assert is_clean(found.out + found.err)
        assert "example.com" in found.out
    assert MARKUP in json.loads(found.out)["ports"][0]["board"]["model"]


@pytest.mark.parametrize("terminal", [False, True])
def test_train_shows_names_as_they_are_spelt(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output.err, "_file", screen)
    monkeypatch.setattr(output.err, "_force_terminal", terminal)
    lessons = Lessons(3, lambda i: (b"", 0), lambda i: Rate(0, 0), 0, lambda i: (b"", 0))
    with watching_board(lessons, is_quiet=False) as shown:
        shown.connected(Identity.parse(identity().pack()), 0)
        shown.transferred("reading the state", 1, 2)
    assert "example.com" in screen.getvalue()
    assert MARKUP in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()
    assert "\x9b" not in screen.getvalue()


def show_cell(text: str) -> None:
    output.show_table(("name",), [[text]])


@pytest.mark.parametrize("print_text", [output.say, output.show, show_cell])
def test_no_text_that_is_printed_is_obeyed(
    print_text: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(LINK)
    printed = capsys.readouterr()
    assert SHOWN in printed.out + printed.err


def test_json_says_what_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"name": LINK + TURNED + "\x7f\nä"}
    output.show_json(names)
    text = capsys.readouterr().out
    assert json.loads(text) == names
    assert is_clean(text)


def test_names_in_a_bar_are_no_markup() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, markup=False)
    with output.count_bar() as bar:
        column = bar.columns[0]
        bar.add_task(MARKUP, total=1)
        screen.print(column.render(bar.tasks[0]))  # type: ignore[attr-defined]
    assert MARKUP in screen.file.getvalue()  # type: ignore[attr-defined]
