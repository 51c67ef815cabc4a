"""COLLECT and IMPRINT over a bad line: a sample counts once, a row is written once."""

from __future__ import annotations

import ctypes

import pytest

from tests.protocol.device import INPUT_BYTES, FakeDevice, compile_c
from tests.protocol.test_ring import LENGTH, OK, POSITION, SAMPLE, SAMPLE_INCOMPLETE

COLLECT, IMPRINT, RESET, COMMAND, LABEL = 0x14, 0x15, 0x0C, 18, 24
MOST, CLASSES = 3, 10
"""That the model takes; of the model."""


@pytest.fixture(scope="module")
def library(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("imprint") / "device.so"
    compile_c(c_compilers[0], path, "-shared", "-fPIC", "-DMCT_IMPRINT_FEATURES=4")
    return ctypes.CDLL(str(path))


class Line:
    """Requests with their sequence numbers."""

    def __init__(self, device: FakeDevice) -> None:
        self.device, self.sequence = device, 0
        device.identify()

    def ask(self, command: int, *numbers: int, body: bytes = b"") -> tuple[int, bytes]:
        self.sequence += 1
        packed = b"".join(n.to_bytes(4, "little", signed=n < 0) for n in numbers)
        return self.again(command, packed + body)

    def again(self, command: int, body: bytes) -> tuple[int, bytes]:
        found = self.device.ask(command, self.sequence, body)
        return found.status, found.body

    def send_sample(self) -> None:
        for offset in range(0, INPUT_BYTES, INPUT_BYTES // 2):
            piece = bytes(INPUT_BYTES // 2)
            assert self.ask(SAMPLE, offset, body=piece)[0] == OK

    def collect(self, index: int) -> tuple[int, bytes]:
        self.send_sample()
        return self.ask(COLLECT, index)


def test_the_flag_says_that_it_does_so(library: ctypes.CDLL) -> None:
    identity = FakeDevice(library).identify()
    assert int.from_bytes(identity.body[2:4], "little") & 512


def test_a_sample_that_is_sent_again_counts_once(library: ctypes.CDLL) -> None:
    line = Line(FakeDevice(library))
    for index in range(2):
        status, body = line.collect(index)
        assert (status, int.from_bytes(body[:4], "little"), len(body)) == (OK, index + 1, 12)
        assert line.again(COLLECT, index.to_bytes(4, "little")) == (status, body)
    status, body = line.collect(1)
    assert (status, int.from_bytes(body, "little")) == (POSITION, 2)
    status, body = line.ask(COLLECT, 0)
    assert status == OK, "the sample of the refused request is there still"
    assert int.from_bytes(body[:4], "little") == 1


def test_there_is_a_largest_number_of_them(library: ctypes.CDLL) -> None:
    line = Line(FakeDevice(library))
    for index in range(MOST):
        assert line.collect(index)[0] == OK
    assert line.collect(MOST) == (POSITION, MOST.to_bytes(4, "little"))
    assert line.ask(IMPRINT, 1, 1)[0] == OK


def test_a_row_is_written_once_and_only_of_what_was_collected(library: ctypes.CDLL) -> None:
    device = FakeDevice(library)
    line = Line(device)
    before = device.state()
    assert line.ask(COLLECT, 0)[0] == SAMPLE_INCOMPLETE
    assert line.ask(IMPRINT, 1, 1)[0] == SAMPLE_INCOMPLETE
    assert line.collect(0)[0] == OK
    for numbers in ((-1, 1), (CLASSES, 1), (1, 0), (1, CLASSES + 1)):
        assert line.ask(IMPRINT, *numbers)[0] == LABEL
    assert device.state() == before
    written = line.ask(IMPRINT, 1, 7)
    assert (written[0], len(written[1])) == (OK, 8)
    after = device.state()
    assert after != before
    assert line.again(IMPRINT, (1).to_bytes(4, "little") + (7).to_bytes(4, "little")) == written
    assert device.state() == after
    assert line.ask(IMPRINT, 1, 7)[0] == SAMPLE_INCOMPLETE


def test_a_reset_forgets_what_was_collected(library: ctypes.CDLL) -> None:
    line = Line(FakeDevice(library))
    assert line.collect(0)[0] == OK
    assert line.ask(RESET, body=bytes(5))[0] == OK
    assert line.ask(IMPRINT, 1, 1)[0] == SAMPLE_INCOMPLETE


def test_wrong_lengths_and_other_firmware_refuse(library: ctypes.CDLL, device: FakeDevice) -> None:
    line, plain = Line(FakeDevice(library)), Line(device)
    for command in (COLLECT, IMPRINT):
        assert line.ask(command, body=bytes(3))[0] == LENGTH
        assert plain.ask(command, 0)[0] == COMMAND
