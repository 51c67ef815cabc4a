"""Boards that run beside the test: links, the ROM bootloader with its real client, QEMU."""

import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.manifest import FILE, BoardDescription
from mcutrain_host.virtual.board import DirectLink, VirtualBoard, load_machine
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.link import FaultyLink, FileLink, LinkFaults, LoopbackLink, TcpLink
from mcutrain_host.virtual.machine import Machine, Stop
from mcutrain_host.virtual.qemu import QemuBoard

from tests.host.boards import manifest_of
from tests.host.virtual.programs import F446, F446_ECHO, MPS2, MPS2_ECHO, assemble, program

serial = pytest.importorskip("serial")

ECHOES = [(F446, F446_ECHO, 0x08000000), (MPS2, MPS2_ECHO, 0)]


def project(folder: Path, spec: BoardDescription, text: str, origin: int) -> Path:
    """A folder like a generated and built one."""
    (folder / "build").mkdir(parents=True)
    elf = assemble(folder, text, origin=origin)
    elf.rename(folder / "build" / "firmware.elf")
    (folder / FILE).write_text(manifest_of(spec).to_json())
    return folder


@pytest.mark.parametrize("link", ["pty", "tcp"])
@pytest.mark.parametrize(("spec", "text", "origin"), ECHOES)
def test_a_serial_program_talks_with_the_board(
    tmp_path: Path, link: str, spec: BoardDescription, text: str, origin: int
) -> None:
    folder = project(tmp_path, spec, text, origin)
    with VirtualBoard.from_folder(folder, link) as board:
        for _ in range(3):  # clients one after another
            with serial.serial_for_url(board.port, timeout=5) as port:
                port.write(bytes(range(255)))
                assert port.read(255) == bytes(range(1, 256))


def test_the_board_can_be_unplugged_and_plugged_again(tmp_path: Path) -> None:
    folder = project(tmp_path, F446, F446_ECHO, 0x08000000)
    with VirtualBoard.from_folder(folder, "pty") as board:
        for _ in range(2):
            with serial.Serial(board.port, timeout=5) as port:
                port.write(b"a")
                assert port.read(1) == b"b"
                board.unplug()
            assert not Path(board.port).exists()
            board.plug()


def test_flash_is_kept_in_its_file(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", F446, F446_ECHO, 0x08000000)
    kept = tmp_path / "flash.bin"
    with (
        VirtualBoard.from_folder(folder, "loopback", flash_file=kept) as board,
        board.paused() as machine,
    ):
        machine.write(0x08060000, b"kept")
    again = load_machine(folder, flash_file=kept, loaded=False)
    assert again.read(0x08060000, 4) == b"kept"
    assert not again.in_rom
    link = DirectLink(again)
    link.write(b"x")
    assert link.read(1) == b"y"


def test_a_fault_of_the_firmware_reaches_who_uses_the_board(tmp_path: Path) -> None:
    text = "    function start\n    ldr r0, =0x60000000\n    ldr r0, [r0]\n"
    folder = project(tmp_path, F446, text, 0x08000000)
    board = VirtualBoard.from_folder(folder, "loopback")
    board.start()
    until = time.monotonic() + 5
    while board.running and time.monotonic() < until:
        time.sleep(0.01)
    assert isinstance(board.fault, BoardFault)
    with pytest.raises(BoardFault, match="0x60000000"):
        board.__exit__(None, None, None)


def test_an_emulator_that_fails_is_no_board_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(machine: Machine) -> None:
        raise OSError("no such line")

    monkeypatch.setattr(Machine, "run", fail)
    folder = project(tmp_path, F446, F446_ECHO, 0x08000000)
    board = VirtualBoard.from_folder(folder, "loopback")
    board.start()
    while board.running:
        time.sleep(0.01)
    with pytest.raises(OSError, match="no such line"):
        board.__exit__(None, None, None)


def test_a_direct_link_runs_the_board_only_while_it_reads(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, F446_ECHO))
    link = DirectLink(machine)
    link.write(b"abc")
    assert machine.instructions == 0
    assert link.read(1) == b"bcd"
    assert link.read(1) == b""


def test_bytes_are_lost_if_they_come_faster_than_they_are_read(tmp_path: Path) -> None:
    slow = F446_ECHO.replace(
        "adds r1, #1", "ldr r2, =3000\n1: subs r2, #1\n    bne 1b\n    adds r1, #1"
    )
    for per_byte, lost in ((0, False), (500, True), (20_000, False)):
        link = LoopbackLink()
        machine = Machine(F446, program(tmp_path, slow), link, instructions_per_byte=per_byte)
        machine.run(until_idle=True)
        link.host_write(bytes(100))
        machine.run(until_idle=True)
        answer = link.host_read()
        assert (len(answer) < 100) == lost
        assert set(answer) == {1}


def test_the_same_seed_gives_the_same_faults(tmp_path: Path) -> None:
    faults = LinkFaults(drop=0.1, corrupt=0.1, double=0.1)
    data = bytes(range(200))

    def course(seed: int) -> bytes:
        wire = LoopbackLink()
        link = FaultyLink(wire, faults, LinkFaults(), seed)
        wire.host_write(data)
        return link.receive()

    assert course(1) == course(1) != course(2)
    assert course(1) != data


@pytest.mark.parametrize("kind", ["drop", "corrupt", "double", "delay"])
def test_a_bad_cable_counts_what_it_changes(kind: str) -> None:
    wire = LoopbackLink()
    faults = LinkFaults(**{kind: 1.0}, delay_seconds=0.0)
    link = FaultyLink(wire, faults, LinkFaults(), 1)
    wire.host_write(bytes(20))
    link.receive()
    link.send(bytes(30))
    assert link.carried == 50
    assert link.changes == (0 if kind == "delay" else 20)


def test_a_delayed_byte_comes_later_and_in_order() -> None:
    wire = LoopbackLink()
    link = FaultyLink(wire, LinkFaults(), LinkFaults(delay=0.5, delay_seconds=0.001), 3)
    link.send(bytes(range(20)))
    got = wire.host_read()
    assert len(got) < 20
    until = time.monotonic() + 5
    while len(got) < 20 and time.monotonic() < until:
        link.wait(0.001)
        got += wire.host_read()
    assert got == bytes(range(20))


def test_nobody_else_can_take_the_tcp_port_meanwhile() -> None:
    link = TcpLink()
    try:
        with pytest.raises(Exception, match=f"cannot listen on port {link.port}"):
            TcpLink(link.port)
    finally:
        link.close()


def test_a_second_client_is_turned_away_and_the_first_one_hears_nothing_of_it() -> None:
    link = TcpLink()
    address = ("127.0.0.1", link.port)
    try:
        with socket.create_connection(address, 5) as first:
            first.sendall(b"one")
            assert received(link, 3) == b"one"
            for _ in range(3):
                with socket.create_connection(address, 5) as second:
                    second.sendall(b"two")
                    assert link.receive() == b""
                    assert_closed(second)
            first.sendall(b"three")
            assert received(link, 5) == b"three"
            link.send(b"four")
            assert first.recv(100) == b"four"
    finally:
        link.close()


def test_a_client_that_has_left_makes_room_for_the_next_at_once() -> None:
    link = TcpLink()
    address = ("127.0.0.1", link.port)
    try:
        for last in (b"", b"a request without an answer"):
            with socket.create_connection(address, 5) as first:
                first.sendall(b"one")
                assert received(link, 3) == b"one"
                first.sendall(last)
            with socket.create_connection(address, 5) as second:
                second.sendall(b"two")
                assert received(link, len(last) + 3) == last + b"two"
                link.send(b"three")
                assert second.recv(100) == b"three"
            assert received(link, 0) == b""
    finally:
        link.close()


def test_a_client_that_leaves_between_two_looks_is_not_taken_for_present(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = TcpLink()
    address = ("127.0.0.1", link.port)
    try:
        with socket.create_connection(address, 5) as first:
            first.sendall(b"one")
            assert received(link, 3) == b"one"
        with socket.create_connection(address, 5) as second:
            second.sendall(b"two")
            with monkeypatch.context() as before_it_left:
                before_it_left.setattr(FileLink, "receive", lambda self: b"")
                link.receive()
            assert received(link, 3) == b"two"
    finally:
        link.close()


def received(link: TcpLink, count: int) -> bytes:
    """So many bytes for the board, or what came of them in 5 seconds; 0: until nothing waits."""
    data, until = bytearray(), time.monotonic() + 5
    while len(data) < count and time.monotonic() < until:
        link.wait(0.01)
        data += link.receive()
    return bytes(data) if count else link.receive()


def assert_closed(client: socket.socket) -> None:
    with suppress(ConnectionResetError):
        assert client.recv(100) == b""


def loader(port: str) -> Any:
    """stm32loader's bootloader at a port; a pseudo-terminal can carry no parity."""
    bootloader = pytest.importorskip("stm32loader.bootloader")
    connection = serial.serial_for_url(port, timeout=5)
    client = bootloader.Stm32Bootloader(connection, device_family="F4", verbosity=0)
    client.reset_from_system_memory()
    return client


@pytest.mark.parametrize("link", ["pty", "tcp"])
def test_stm32loader_programs_the_board(tmp_path: Path, link: str) -> None:
    folder = project(tmp_path, F446, F446_ECHO, 0x08000000)
    ((_, firmware),) = load_machine(folder).image.segments
    firmware = firmware.ljust((len(firmware) + 3) & ~3, b"\xff")
    with VirtualBoard.from_folder(folder, link, loaded=False) as board:
        client = loader(board.port)
        assert client.get() == 0x31
        assert client.get_id() == 0x421
        assert client.get_flash_size_and_uid()[0] == 512
        client.erase_memory()
        client.write_memory_data(0x08000000, firmware)
        assert client.read_memory_data(0x08000000, len(firmware)) == firmware
        client.go(0x08000000)
        client.connection.write(b"x")
        assert client.connection.read(1) == b"y"
        client.connection.close()


def refused(action: Callable[[Any], None]) -> Callable[[Any], bool]:
    def check(client: Any) -> bool:
        from stm32loader.bootloader import CommandError

        try:
            action(client)
        except CommandError:
            return True
        return False

    return check


@pytest.mark.parametrize(
    ("action", "is_refused"),
    [
        (lambda c: c.write_memory(0x08000000, b"\0" * 4), True),  # not erased
        (lambda c: c.write_memory(0x08010000, b"\0" * 4), False),
        (lambda c: c.write_memory(0x20000000, b"\0" * 4), True),  # the bootloader's own
        (lambda c: c.write_memory(0x20004000, b"\0" * 4), False),
        (lambda c: c.write_memory(0x60000000, b"\0" * 4), True),
        (lambda c: c.extended_erase_memory([7]), False),
        (lambda c: c.extended_erase_memory([8]), True),
        (lambda c: c.go(0x90000000), True),
        (lambda c: c.write_and_ack("bad checksum", 0x11, 0x11), True),
        (lambda c: c.readout_protect(), True),
    ],
)
def test_the_bootloader_keeps_its_rules(
    tmp_path: Path, action: Callable[[Any], None], is_refused: bool
) -> None:
    folder = project(tmp_path, F446, F446_ECHO, 0x08000000)
    with VirtualBoard.from_folder(folder, "tcp", boot0=True) as board:
        client = loader(board.port)
        client.get()
        try:
            assert refused(action)(client) == is_refused
        finally:
            client.connection.close()


JUMP = """
    function start
    {clock}
    ldr r0, =0x1FFF0000
    ldr r1, [r0]
    ldr r2, [r0, #4]
    msr msp, r1
    bx r2
"""
RUN_FROM_PLL = """
    ldr r3, =0x40023800
    ldr r1, =0x01000083
    str r1, [r3]
"""


def test_firmware_can_jump_into_the_bootloader(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, JUMP.format(clock="")))
    assert machine.run(until_idle=True) is Stop.IDLE
    assert machine.in_rom
    link = DirectLink(machine)
    link.write(b"\x7f")
    assert link.read(1) == b"\x79"


def test_firmware_must_not_jump_into_the_bootloader_with_the_pll_on(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, JUMP.format(clock=RUN_FROM_PLL)))
    with pytest.raises(BoardFault, match="measures baud rates"):
        machine.run(until_idle=True)


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="needs qemu-system-arm")
def test_qemu_runs_the_same_program(tmp_path: Path) -> None:
    folder = project(tmp_path, MPS2, MPS2_ECHO, 0)
    with QemuBoard.from_folder(folder) as board:
        for _ in range(2):
            with serial.serial_for_url(board.port, timeout=5) as port:
                port.write(b"hello")
                assert port.read(5) == b"ifmmp"
        assert board.running
    assert not board.running
