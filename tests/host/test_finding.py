"""A command without --port takes the one board that answers, or lists what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from mcutrain_host import finding, ports
from mcutrain_host.client import Patience
from mcutrain_host.errors import BusyFileError, HostError
from mcutrain_host.finding import find_board
from mcutrain_host.link import SerialLink
from mcutrain_host.locks import alone
from mcutrain_host.ports import Port

from tests.host.fake_device import MODEL_HASH, FakeDevice
from tests.host.serve import Receive, on_pty

ST_LINK = ((0x0483, 0x374B),)
SILENT: Receive = lambda data: b""  # noqa: E731
Connect = Callable[..., list[str]]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes these boards the only ports of this computer. Returns the ports' paths."""
    monkeypatch.setattr(ports, "PROBE", Patience(answer_seconds=0.05, attempts=1))
    with ExitStack() as stack:

        def made(*boards: Receive, usb: tuple[int, int] | None = None) -> list[str]:
            paths = [stack.enter_context(on_pty(board)) for board in boards]
            vendor, product = usb or (None, None)
            there = [Port(path, "a cable", vendor, product, None) for path in paths]
            monkeypatch.setattr(ports, "find_ports", lambda: there)
            return paths

        yield made


def other_model() -> FakeDevice:
    device = FakeDevice()
    device.network.model_hash = 7
    return device


def test_the_one_board_that_answers_is_taken_and_named(connect: Connect) -> None:
    _, path = connect(SILENT, FakeDevice().receive)
    found = find_board()
    assert found.path == path
    assert found.why == (
        f"one board answers, at {path}: fake, chain, scheme full, 0 samples learnt: it is used"
    )


def test_of_two_boards_the_one_with_the_projects_model_is_taken(connect: Connect) -> None:
    _, path = connect(other_model().receive, FakeDevice().receive)
    assert find_board(model_hash=MODEL_HASH).path == path


def test_several_boards_are_listed_with_port_board_and_model(connect: Connect) -> None:
    one, two, three = connect(FakeDevice().receive, FakeDevice().receive, SILENT)
    with pytest.raises(HostError) as raised:
        find_board(model_hash=MODEL_HASH)
    said = "fake, chain, scheme full, 0 samples learnt"
    assert str(raised.value) == (
        f"2 boards with the project's firmware answer ({one}: {said}; {two}: {said}; "
        f"{three}: no answer); name one with --port"
    )


def test_a_board_with_another_model_is_listed_and_not_taken(connect: Connect) -> None:
    (path,) = connect(other_model().receive)
    with pytest.raises(
        HostError, match=r"no board with the project's firmware answers .*flash"
    ) as e:
        find_board(model_hash=MODEL_HASH)
    assert f"{path}: fake, chain" in str(e.value)


def test_nobody_is_a_sentence_that_says_what_to_do(connect: Connect) -> None:
    connect()
    with pytest.raises(HostError, match=r"is the cable in.*socket://HOST:PORT"):
        find_board()
    (path,) = connect(SILENT)
    with pytest.raises(HostError, match=rf"no board .* answers \({path}: no answer\); flash one"):
        find_board()


def test_a_port_that_alone_fits_is_taken_without_a_word_to_it(connect: Connect) -> None:
    def never(data: bytes) -> bytes:
        raise AssertionError("it was asked")

    (path,) = connect(never, usb=ST_LINK[0])
    assert find_board("nucleo", ST_LINK).path == path
    assert "alone has the USB numbers of nucleo" in find_board("nucleo", ST_LINK).why


def test_of_two_that_fit_the_one_that_no_other_program_uses_is_taken(connect: Connect) -> None:
    used, free = connect(FakeDevice().receive, FakeDevice().receive, usb=ST_LINK[0])
    with SerialLink(used):
        assert find_board("nucleo", ST_LINK).path == free
        assert finding.answer_of(ports.probe(used)) == "in use by another program"


def test_a_file_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "cache"))
    path, same = tmp_path / "trained.mcts", tmp_path / "folder" / ".." / "trained.mcts"
    says = r"trained\.mcts is written by another mcutrain"
    with alone(path), alone(tmp_path / "another.mcts"), pytest.raises(BusyFileError, match=says):
        alone(same).__enter__()
    with alone(path):
        pass
    assert not path.exists()


def test_without_a_cache_there_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "file"))
    with alone(tmp_path / "state"), alone(tmp_path / "state"):
        pass
