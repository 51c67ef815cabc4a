"""Ports of emulated boards: two at once, and a question that takes none away."""

from __future__ import annotations

import socket
import sys

import pytest
from mcutrain_host.virtual.qemu import _free_ports, _is_taken


def test_ports_of_one_board_differ() -> None:
    for _ in range(50):
        assert len(set(_free_ports(3))) == 3


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert _is_taken(port)
    assert not _is_taken(port)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such reuse of addresses")
def test_to_ask_for_a_port_does_not_keep_it_from_who_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """QEMU may bind its port at the moment at which we ask whether it has."""
    (port,) = _free_ports(1)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as QEMU does

    class Asking(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            super().bind(address)
            server.bind(address)
            server.listen()

    monkeypatch.setattr("mcutrain_host.virtual.qemu.socket.socket", Asking)
    assert not _is_taken(port)
    monkeypatch.undo()
    assert _is_taken(port)
    server.close()
