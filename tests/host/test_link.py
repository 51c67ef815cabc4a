"""Real lines: a pseudo-terminal, TCP, what goes wrong with them, and who is there."""

import errno
import socket
from collections.abc import Callable

import pytest
import serial
from mcutrain_host import link, ports
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import NoAnswerError, PortError, UnpluggedError
from mcutrain_host.link import SerialLink, _reason, check_port

from tests.host.fake_device import FakeDevice
from tests.host.serve import on_pty, on_tcp

SHORT = Patience(answer_seconds=0.15, attempts=2)
NOBODY = "socket://127.0.0.1:1"
"""No system gives this port to a program that asks for any free one."""


@pytest.mark.parametrize("serve", [on_pty, on_tcp])
def test_a_board_answers_on_a_real_line(serve: Callable[..., Callable[..., str]]) -> None:
    board = FakeDevice()
    with serve(board.receive) as url, SerialLink(url) as link:  # type: ignore[attr-defined]
        device = Device(link)
        assert device.identify().board == "fake"
        device.send_sample(bytes(1200))
        assert device.infer().cycles == 77
        assert len(device.read_state()) == device.identity.saved_bytes
        assert device.resent == 0
        assert device.reopen().board == "fake"


def test_a_line_where_nobody_answers_is_given_up() -> None:
    says = "gave no answer to IDENTIFY in 0"
    with (
        on_pty(lambda data: b"") as path,
        SerialLink(path) as link,
        pytest.raises(NoAnswerError, match=says),
    ):
        Device(link, SHORT).identify()


def test_a_port_belongs_to_one_program() -> None:
    says = "cannot open .*: it is in use by another program; end that one, or wait for it$"
    with (
        on_pty(lambda data: b"") as path,
        SerialLink(path),
        pytest.raises(PortError, match=says),
    ):
        SerialLink(path)


def test_a_connection_that_is_closed_at_once_belongs_to_another_program() -> None:
    says = "cannot open socket://.*: it is in use by another program; end that one, or wait for it"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = SerialLink(f"socket://127.0.0.1:{listener.getsockname()[1]}")
        listener.accept()[0].close()
        with pytest.raises(PortError, match=says):
            Device(link, SHORT).identify()
        link.close()


def test_a_connection_that_ends_is_unplugged() -> None:
    board = FakeDevice()
    with on_tcp(board.receive, connections=1) as url:
        link = SerialLink(url)
        Device(link).identify()
    with pytest.raises(UnpluggedError, match="is gone"):
        Device(link).identify()
    link.url = NOBODY  # the port that was closed may be another test's by now
    with pytest.raises(PortError, match="nothing listens there"):
        link.open()
    with pytest.raises(UnpluggedError):
        link.write(b"x")
    link.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/dev/no-such-port", "there is no such port"),
        ("/dev/null", "it is no serial port"),
        ("/tmp", "it is no serial port"),
        (NOBODY, "nothing listens there"),
        ("socket://127.0.0.1", "give it as"),
        ("socket://127.0.0.1:port", "give it as socket://HOST:PORT"),
        ("nonsense://x", "invalid URL"),
    ],
)
def test_a_port_that_cannot_be_opened_is_a_sentence(url: str, says: str) -> None:
    with pytest.raises(PortError, match=says):
        SerialLink(url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("COM3", "there is no such port"),
        ("/dev/no-such-port", "there is no such port"),
        ("", "it is no serial port"),
        ("/tmp", "it is no serial port"),
        (__file__, "it is no serial port"),
        ("127.0.0.1:5000", "give it as socket://127.0.0.1:5000"),
        ("board.local:5000", "give it as socket://board.local:5000"),
        ("[::1]:5000", r"give it as socket://\[::1\]:5000"),
        ("socket://127.0.0.1", "give it as socket://HOST:PORT"),
        ("socket://127.0.0.1:port", "give it as socket://HOST:PORT"),
        ("socket:/127.0.0.1:5000", "there is no such port"),
        ("nonsense://x", "invalid URL"),
    ],
)
def test_what_cannot_be_a_port_is_said_without_opening_one(url: str, says: str) -> None:
    with pytest.raises(PortError, match=says):
        check_port(url)


def test_what_can_be_a_port_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_pty(FakeDevice().receive) as path:
        check_port(path)
    for url in (NOBODY, "rfc2217://127.0.0.1:4000", "loop://"):
        check_port(url)
    monkeypatch.setattr(link, "PORTS_ARE_FILES", False)  # as on Windows
    check_port("COM3")


def test_a_port_without_permission_says_what_to_do() -> None:
    error = serial.SerialException(errno.EACCES, "could not open port: Permission denied")
    assert "group dialout" in _reason("/dev/ttyS0", error)


def test_who_answers_at_a_port_is_found_without_its_baud_rate() -> None:
    board = FakeDevice()
    with on_pty(board.receive) as path:
        found = ports.probe(path)
        assert found.identity is not None
        assert found.identity.board == "fake"


def test_who_does_not_answer_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PROBE", SHORT)
    with on_pty(lambda data: b"") as path:
        found = ports.probe(path)
        assert found.identity is None
        assert "nothing with mcutrain's firmware answered" in found.reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("PermissionError(13, 'Access is denied.', None, 5)", "in use by another program"),
        ("FileNotFoundError(2, 'The system cannot find the file', None, 2)", "no such port"),
    ],
)
def test_what_windows_says_of_a_port_is_a_sentence_too(said: str, reason: str) -> None:
    error = serial.SerialException(f"could not open port 'COM3': {said}")  # pyserial's win32
    assert reason in _reason("COM3", error)


def test_listing_ports_works_on_any_machine() -> None:
    assert all(port.path for port in ports.find_ports())
