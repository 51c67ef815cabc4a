"""A second emulator, by others, ends with the same bits: over the Pico's UART and over its USB.

What a USB port has to bear besides: a closed port, suspend, a cable that is pulled, 1200 baud.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import UnpluggedError
from mcutrain_host.frames import encode
from mcutrain_host.protocol import Command, Rate

from mcutrain.target import load_target
from tests.boards.projects import RATE, SEED, built, quick_lessons, quick_state, quick_step
from tests.boards.rp2040js import (
    CLASS_OUT,
    CONFIGURATION,
    DEVICE,
    NUMBER,
    QUALIFIER,
    SET_LINES,
    STANDARD_IN,
    Rp2040js,
    Stalled,
    needs_rp2040js,
)
from tests.boards.test_same_bits import on_unicorn, trained

STEPS, SAVE_EVERY = 24, 8
BOARDS = {"uart": "rpi-pico", "usb": "rpi-pico-usb"}
PATIENCE = Patience(answer_seconds=0.001, attempts=1000, work_seconds=60)
"""The board's own time passes while the link is read, so waiting brings nothing."""
ENDPOINT, CLEAR_FEATURE, IN, OUT = 2, 1, 0x82, 0x02
ERROR_RATE = 1 / 400
TOUCH_BAUD = load_target("rpi-pico-usb").flashing.touch_baud
WORKING_BYTES = 15
LONGEST_NODE_MS = 0.5
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def pico(
    root: Path, line: str, seed: int = 1, chip: bool = True
) -> Iterator[tuple[Rp2040js, Device]]:
    """A Pico that has just got its power and program."""
    needs_rp2040js()
    with Rp2040js(built(root, BOARDS[line], step=quick_step()), line, seed, chip) as board:
        board.open()
        yield board, Device(board, PATIENCE)
        facts = board.facts
        assert facts["faults"] == []
        assert [c for c in facts["complaints"] if "QSPI" not in c] == []


def taught(device: Device, first: int, last: int) -> None:
    """Lessons from one position to another, with a save behind some of them."""
    x, y = quick_lessons()
    for position in range(first, last):
        device.send_sample(x[position].tobytes())
        device.train(int(y[position]), position, Rate(RATE.mult_q31, RATE.shift))
        if (position + 1) % SAVE_EVERY == 0:
            device.save()


# ---- the same bits ----


def test_one_hash_in_three_ways(projects_root):
    """Unicorn's UART, rp2040js' UART, rp2040js' USB."""
    x, y = quick_lessons()
    unicorn = on_unicorn(built(projects_root, BOARDS["uart"], step=quick_step()))
    states = {"Unicorn, UART": trained(unicorn, x[:STEPS], y[:STEPS])}
    for line in BOARDS:
        with pico(projects_root, line) as (board, device):
            device.reset(SEED)
            taught(device, 0, STEPS)
            states[f"rp2040js, {line}"] = device.read_state()
            assert board.facts["programs"] >= STEPS // SAVE_EVERY
    hashes = {name: hashlib.sha256(state).hexdigest() for name, state in states.items()}
    wanted = hashlib.sha256(quick_state(STEPS)).hexdigest()
    assert hashes == dict.fromkeys(hashes, wanted)
    assert len(hashes) == 3


@pytest.mark.draws(1)
@pytest.mark.parametrize("chip", [True, False])
def test_the_second_stage_reads_by_what_the_flash_chip_answers(projects_root, chip):
    """rp2040js' own model answers zeros: the stage falls back."""
    with pico(projects_root, "uart", chip=chip) as (board, device):
        wanted = [0x005F0300, 2, 0xA0002022, 1] if chip else [0x001F0300, 4, 0x03000218, 1]
        device.reset(SEED)
        assert board.facts["reading"] == wanted
        taught(device, 0, SAVE_EVERY)
        assert board.facts["programs"] > 0
        assert board.facts["reading"] == wanted
        board.ask("cut")
        board.ask("powerOn")
        assert device.identify().position == SAVE_EVERY
        assert device.read_state() == quick_state(SAVE_EVERY)
        assert board.facts["reading"] == wanted


@pytest.mark.draws(1)
@pytest.mark.parametrize("line", BOARDS)
def test_power_cuts_leave_a_state_that_was_saved(projects_root, line):
    """Within an erase or a write of the flash; the run goes on from there to the same bits."""
    with pico(projects_root, line) as (board, device):
        device.reset(SEED)
        position = 0
        for operations in (0, 1, 2, 3, 5):
            board.ask("cutInFlash", index=operations)
            position = taught_until_cut(device, position)
            board.ask("powerOn")
            board.open()
            saved = device.identify().save_number
            if not saved:
                device.reset(SEED)
            restored = device.identify().position
            assert restored in ((position, position + SAVE_EVERY) if saved else (0,))
            position = restored
            assert device.read_state() == expected(position)
        board.ask("cutInFlash", index=1_000)
        taught(device, position, position + SAVE_EVERY)
        assert device.read_state() == quick_state(position + SAVE_EVERY)


def taught_until_cut(device: Device, position: int) -> int:
    """Trains and saves until the power is gone; the position that was saved last."""
    try:
        while True:
            taught(device, position, position + SAVE_EVERY)
            position += SAVE_EVERY
    except UnpluggedError:
        return position


def expected(count: int) -> bytes:
    """The simulation's state after so many lessons."""
    return quick_state(count) if count else quick_step().simulator(SEED).save()


class BadCable:
    """Changes bytes both ways, always the same ones."""

    name = "a bad cable"

    def __init__(self, board: Rp2040js, seed: int) -> None:
        self.board, self.random = board, random.Random(seed)

    def damaged(self, data: bytes) -> bytes:
        return bytes(b ^ (self.random.random() < ERROR_RATE) * 0x40 for b in data)

    def write(self, data: bytes) -> None:
        self.board.write(self.damaged(data))

    def read(self, seconds: float) -> bytes:
        return self.damaged(self.board.read(seconds))

    def clear(self) -> None:
        pass

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.draws(1)
@pytest.mark.parametrize("line", BOARDS)
def test_requests_are_sent_again_and_no_step_is_done_twice(projects_root, line):
    with pico(projects_root, line) as (board, _):
        device = Device(BadCable(board, 3), PATIENCE)
        device.identify()
        device.reset(SEED)
        taught(device, 0, STEPS)
        assert device.read_state() == quick_state(STEPS)
        assert device.resent > 0


# ---- what hosts ask a USB device ----


def test_the_port_says_who_it_is(projects_root):
    with pico(projects_root, "usb") as (board, _):
        board.enumerate()  # once more: hosts reset what they found
        device = board.descriptor(DEVICE, 64)
        assert len(device) == 18
        assert struct.unpack_from("<HH", device, 8) == (0x2E8A, 0x000A)
        texts = [board.text(number) for number in device[14:17]]
        assert texts == ["mcutrain", "rpi-pico-usb", NUMBER]
        assert board.descriptor(CONFIGURATION, 9) == board.descriptor(CONFIGURATION, 255)[:9]
        assert board.control(STANDARD_IN, 8, data=1) == b"\x01"  # GET_CONFIGURATION
        for kind, number in ((QUALIFIER, 0), (3, 4), (0x21, 0)):
            with pytest.raises(Stalled):
                board.descriptor(kind, 64, number)
        assert board.descriptor(DEVICE, 8) == device[:8]  # a refusal refuses nothing else


def test_descriptors_follow_one_another_and_name_the_endpoints(projects_root):
    with pico(projects_root, "usb") as (board, _):
        whole = board.descriptor(CONFIGURATION, 255)
        found, at = [], 0
        while at < len(whole):
            found.append(whole[at : at + whole[at]])
            at += whole[at]
        assert at == len(whole) == struct.unpack_from("<H", whole, 2)[0]
        interfaces = [d[5] for d in found if d[1] == 4]
        endpoints = {d[2]: d[3] for d in found if d[1] == 5}
        assert interfaces == [2, 10]
        assert endpoints == {0x81: 3, OUT: 2, IN: 2}


def test_a_frame_leaves_in_as_few_packets_as_it_needs(projects_root):
    with pico(projects_root, "usb") as (board, device):
        board.facts["packets"].clear()
        device.identify()
        answer = board.facts["packets"]
        assert len(answer) == 2
        assert max(answer) < 64  # a full one would make the host wait for more
        device.read_state()
        assert len(board.facts["packets"]) == -(-(88 + 8 + 4 + 4) // 63)


def test_control_requests_are_answered_while_it_trains(projects_root):
    """Between two nodes: the answer to TRAIN has not begun when they are done."""
    x, y = quick_lessons()
    with pico(projects_root, "usb") as (board, device):
        device.reset(SEED)
        asked(board, Command.IDENTIFY, 1)
        asked(board, Command.SAMPLE, 2, bytes(4) + x[0].tobytes())
        body = struct.pack("<iIii", int(y[0]), 0, RATE.mult_q31, RATE.shift)
        assert len(asked(board, Command.TRAIN, 3, body)) == WORKING_BYTES
        began = board.ask("now")["ms"]
        assert len(board.descriptor(DEVICE, 18)) == 18
        assert board.ask("now")["ms"] - began < LONGEST_NODE_MS
        assert board.ask("waiting")["count"] == 0  # it still trains
        assert len(board.read(1)) > WORKING_BYTES
        device.identify()
        assert device.read_state() == quick_state(1)


def request(command: Command, sequence: int = 1, body: bytes = b"") -> bytes:
    """A frame of a session of its own."""
    return encode(struct.pack("<BBHHH", 1, command, 0x7777, sequence, 0) + body)


def asked(board: Rp2040js, command: Command, sequence: int, body: bytes = b"") -> bytes:
    """What comes first in answer to a request."""
    board.write(request(command, sequence, body))
    return board.read(1)


def test_an_endpoint_whose_halt_is_cleared_begins_with_data0(projects_root):
    with pico(projects_root, "usb") as (board, device):
        device.identify()
        for side, endpoint in (("in", IN), ("out", OUT)) * 2:
            device.reset(SEED)  # one packet each way: the next would be DATA1
            board.ask("clearHalt", side=side)
            board.control(ENDPOINT, CLEAR_FEATURE, 0, endpoint)
        device.reset(SEED)
        taught(device, 0, 2)
        assert device.read_state() == quick_state(2)


# ---- a host that goes away ----


def test_a_frame_that_suspend_interrupts_arrives_whole(projects_root):
    """A frame of two packets, of which the first waits while the bus is silent."""
    with pico(projects_root, "usb") as (board, device):
        whole = asked(board, Command.IDENTIFY, 1)
        board.write(request(Command.IDENTIFY, 2))
        board.ask("leaveSilent", ms=20)
        assert board.ask("waiting")["count"] == 0
        board.ask("comeBack")
        assert len(board.read(1)) == len(whole) > 64
        device.identify()
        device.reset(SEED)
        taught(device, 0, STEPS)
        assert device.read_state() == quick_state(STEPS)


def test_a_cable_pulled_in_the_middle_of_a_frame_leaves_nothing_of_it(projects_root):
    """The board has other power. What it was sending has no reader, and its end is not sent."""
    with pico(projects_root, "usb") as (board, device):
        device.reset(SEED)
        taught(device, 0, SAVE_EVERY)
        board.write(request(Command.IDENTIFY))
        board.ask("leaveSilent", ms=10)  # one packet waits, and the board for its way
        board.ask("plugIn")
        board.open()
        board.ask("run", ms=5)
        assert board.ask("waiting")["count"] == 0
        assert device.identify().position == SAVE_EVERY
        taught(device, SAVE_EVERY, STEPS)
        assert device.read_state() == quick_state(STEPS)


def test_a_closed_port_is_sent_nothing(projects_root):
    with pico(projects_root, "usb") as (board, device):
        device.identify()
        board.close_port()
        board.write(request(Command.IDENTIFY))
        board.ask("run", ms=5)
        board.open_port()
        board.ask("run", ms=5)
        assert board.ask("waiting")["count"] == 0
        assert device.identify().board == "rpi-pico-usb"


# ---- 1200 baud, and restarts ----


def test_a_port_opened_at_1200_baud_and_closed_is_the_bootloader(projects_root):
    with pico(projects_root, "usb") as (board, _):
        board.open_port(TOUCH_BAUD)
        board.ask("run", ms=5)
        assert not board.facts["inBootloader"]
        board.close_port()
        board.ask("run", ms=30)
        assert board.facts["inBootloader"]


def test_other_speeds_and_an_open_port_are_no_bootloader(projects_root):
    """Windows opens ports at 1200 baud before it sets their speed."""
    with pico(projects_root, "usb") as (board, device):
        board.open_port(TOUCH_BAUD)
        board.open_port(115_200)
        board.close_port()
        board.set_speed(TOUCH_BAUD)
        board.control(CLASS_OUT, SET_LINES, 0)  # closed already
        board.ask("run", ms=30)
        board.open_port()
        assert device.identify().board == "rpi-pico-usb"


def test_a_restart_is_seen_as_a_cable_that_was_pulled(projects_root):
    with pico(projects_root, "usb") as (board, device):
        device.reset(SEED)
        taught(device, 0, SAVE_EVERY)
        device.restart()
        board.open()
        assert (board.facts["detached"], board.facts["restarts"]) == (1, 1)
        assert device.identify().position == SAVE_EVERY


def test_it_is_there_before_a_host_looks(projects_root):
    """A host waits 100 ms behind the plug (USB 2.0, 7.1.7.3)."""
    with pico(projects_root, "usb") as (board, _):
        board.ask("powerOn")
        began = board.ask("now")["ms"]
        assert board.ask("attach", ms=100)["attached"]
        assert board.ask("now")["ms"] - began < 100
