"""Requests reach the board once each, whatever the line does to them."""

from collections.abc import Callable
from itertools import count

import pytest
from mcutrain_host import frames, protocol
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import (
    DeviceRestartedError,
    HostError,
    NoAnswerError,
    RefusedError,
    StateFileError,
    UnpluggedError,
    WrongVersionError,
)
from mcutrain_host.protocol import Command, Frame, Rate, Status

from tests.host.fake_device import Chain, FakeDevice, FakeLink, Noise

RATE = Rate(1 << 30, -5)
SAMPLE = bytes(i % 251 for i in range(Chain.input_bytes))


def connect(device: FakeDevice, noise: Noise | None = None) -> Device:
    link = FakeLink(device, noise)
    return Device(link, Patience(0.2), sessions=count(1), clock=link.clock)


@pytest.fixture
def board() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def device(board: FakeDevice) -> Device:
    return connect(board)


def test_identify_says_what_the_board_is(device: Device) -> None:
    found = device.identify()
    assert (found.board, found.model, found.scheme) == ("fake", "chain", "full")
    assert found.is_complete
    assert found.has_slots
    assert not found.was_restored
    assert (found.input_bytes, found.position) == (Chain.input_bytes, 0)


def test_a_sample_goes_in_pieces_that_fit(board: FakeDevice, device: Device) -> None:
    device.send_sample(SAMPLE)
    pieces = [body for command, body in board.carried_out if command == Command.SAMPLE]
    assert [int.from_bytes(p[:4], "little") for p in pieces] == [0, 508, 1016]
    assert b"".join(p[4:] for p in pieces) == SAMPLE


def test_a_step_says_loss_prediction_and_position(device: Device) -> None:
    device.send_sample(SAMPLE)
    step = device.train(3, 0, RATE)
    assert (step.position, step.cycles) == (1, 1234)
    statistics = device.statistics()
    assert (statistics.position, statistics.loss_q16) == (1, step.loss_q16)
    assert statistics.stack_used_bytes == 512


def test_evaluation_is_counted_by_the_board(device: Device) -> None:
    device.send_sample(SAMPLE)
    prediction = device.infer().prediction
    scores = device.read_output()
    assert scores.index(max(scores)) == prediction
    for index in range(3):
        device.send_sample(SAMPLE)
        found = device.evaluate(prediction if index else (prediction + 1) % 10, index)
        assert (found.evaluated, found.correct) == (index + 1, index)


def test_a_state_that_was_read_can_be_written(board: FakeDevice, device: Device) -> None:
    device.send_sample(SAMPLE)
    device.train(3, 0, RATE)
    saved = device.read_state()
    assert saved == board.network.save()
    assert device.reset(9) == 0
    seen: list[tuple[int, int]] = []
    device.write_state(saved, lambda done, of: seen.append((done, of)))
    assert device.read_state() == saved
    assert seen[-1] == (len(saved), len(saved))


def test_a_state_of_another_size_is_not_sent(device: Device) -> None:
    with pytest.raises(StateFileError, match="has 10 bytes"):
        device.write_state(bytes(10))


def test_a_damaged_state_is_refused_at_its_end(device: Device) -> None:
    saved = bytearray(device.read_state())
    saved[-1] ^= 1
    with pytest.raises(RefusedError, match="state that was written is damaged"):
        device.write_state(bytes(saved))
    assert not device.identify().is_complete


def test_save_and_restore_bring_the_state_back(device: Device) -> None:
    device.send_sample(SAMPLE)
    device.train(1, 0, RATE)
    saved, state = device.save(), device.read_state()
    assert (saved.number, saved.position) == (1, 1)
    device.reset(5)
    assert device.restore() == saved
    assert device.read_state() == state


def test_a_refusal_names_command_and_reason(device: Device) -> None:
    with pytest.raises(
        RefusedError, match="refused TRAIN: bytes of the sample are missing"
    ) as found:
        device.train(1, 0, RATE)
    assert found.value.status == Status.SAMPLE_INCOMPLETE


def test_a_step_from_another_position_says_the_right_one(device: Device) -> None:
    device.send_sample(SAMPLE)
    with pytest.raises(RefusedError) as found:
        device.train(1, 7, RATE)
    assert (found.value.status, found.value.body) == (Status.POSITION, bytes(4))


def test_a_step_without_a_rate_uses_the_one_that_was_set(device: Device) -> None:
    device.send_sample(SAMPLE)
    with pytest.raises(RefusedError, match="learning rate"):
        device.train(1, 0)
    device.set_rate(RATE)
    assert device.train(1, 0).position == 1


@pytest.mark.parametrize("rate", [1e-4, 5e-4])
@pytest.mark.parametrize("seed", range(5))
def test_on_a_noisy_line_every_request_is_carried_out_once(seed: int, rate: float) -> None:
    board, quiet = FakeDevice(), Chain()
    device = connect(board, Noise(rate, seed))
    device.identify()
    quiet.reset(4)
    device.reset(4)
    for position in range(40):
        sample = bytes((position + i) % 256 for i in range(Chain.input_bytes))
        device.send_sample(sample)
        assert device.train(position % 10, position, RATE).position == position + 1
        quiet.train(sample, position % 10, RATE.mult_q31, RATE.shift)
    assert board.network.save() == quiet.save() == device.read_state()
    trained = [body for command, body in board.carried_out if command == Command.TRAIN]
    assert len(trained) == 40
    assert device.resent > 0


def test_sequence_numbers_begin_anew_after_the_last(board: FakeDevice, device: Device) -> None:
    device.identify()
    device._sequence = board.sequence = 65_530
    board.sequence -= 1
    for _ in range(10):
        device.statistics()
    assert board.sequence == 3
    assert device.resent == 0


def test_a_board_that_does_not_answer_is_given_up(board: FakeDevice) -> None:
    link = FakeLink(board, Noise(0, 0))
    link.noise = lambda data: b""  # type: ignore[assignment]
    device = Device(link, Patience(0.5, attempts=3), clock=link.clock)
    with pytest.raises(NoAnswerError, match=r"no answer to IDENTIFY in 1\.5"):
        device.identify()


def test_what_came_while_the_program_slept_is_read(board: FakeDevice, device: Device) -> None:
    """It was stopped for longer than a request may take, at every look at the clock."""
    looks = count()
    device._clock = lambda: 1.0 * next(looks)
    device.send_sample(SAMPLE)
    assert device.train(1, 0, RATE).position == 1
    assert len([c for c, _ in board.carried_out if c == Command.TRAIN]) == 1


def test_what_came_in_small_pieces_while_the_program_slept_is_read(
    board: FakeDevice, device: Device
) -> None:
    """As a socket gives it: two bytes at a time."""
    device.send_sample(SAMPLE)
    looks, link = count(), device.link
    whole = bytearray()

    def read_two(seconds: float, read: Callable[[float], bytes] = link.read) -> bytes:
        whole.extend(read(seconds))
        piece = bytes(whole[:2])
        del whole[:2]
        return piece

    link.read = read_two  # type: ignore[method-assign]
    device._clock = lambda: 100.0 * next(looks)
    assert device.train(1, 0, RATE).position == 1
    assert device.resent == 0


def test_a_line_that_never_falls_silent_is_given_up(board: FakeDevice, device: Device) -> None:
    device.link.read = lambda seconds: b"noise" * 100  # type: ignore[method-assign]
    looks = count()
    device._clock = lambda: 100.0 * next(looks)
    with pytest.raises(NoAnswerError, match="no answer to IDENTIFY"):
        device.identify()


def test_a_command_that_computes_is_waited_for(board: FakeDevice, device: Device) -> None:
    """Neither WORKING nor the result comes for a while; the board is still asked."""
    device.send_sample(SAMPLE)
    link = device.link
    assert isinstance(link, FakeLink)
    deaf_until = link.now + 30
    link.noise = lambda data: data if link.now > deaf_until else b""  # type: ignore[assignment]
    assert device.train(1, 0, RATE).position == 1
    assert board.position == 1


def test_a_restart_is_told_and_a_new_session_begins(board: FakeDevice, device: Device) -> None:
    device.identify()
    board.power_on()
    with pytest.raises(DeviceRestartedError):
        device.statistics()
    assert device.identify().position == 0
    device.statistics()


def test_a_session_that_another_program_began_is_told(board: FakeDevice, device: Device) -> None:
    device.identify()
    other = Device(FakeLink(board), sessions=count(50))
    other.identify()
    with pytest.raises(DeviceRestartedError):
        device.statistics()


def test_a_session_number_that_was_in_use_is_replaced(board: FakeDevice, device: Device) -> None:
    board.session, board.sequence = 1, 77
    assert device.identify().board == "fake"
    assert board.session == 2


def test_answers_to_an_earlier_session_are_passed_over(board: FakeDevice) -> None:
    device = connect(board)
    device.identify()
    link = device.link
    assert isinstance(link, FakeLink)
    request = Frame(Command.STATISTICS, 1, 1).pack()
    link.waiting += board.receive(frames.encode(request)) * 2
    assert device.identify().position == 0
    assert device.statistics().position == 0


@pytest.mark.parametrize("theirs", [0, 2, 7])
def test_another_version_of_the_protocol_is_named(board: FakeDevice, theirs: int) -> None:
    device = connect(board)
    link = device.link
    assert isinstance(link, FakeLink)
    answer = Frame(Command.IDENTIFY | protocol.RESPONSE, 1, 0, Status.VERSION, version=theirs)
    link.waiting += frames.encode(answer.pack())
    with pytest.raises(WrongVersionError, match=f"speaks version {theirs}, this program version 1"):
        device.identify()


def test_an_answer_of_the_wrong_size_is_a_sentence(board: FakeDevice) -> None:
    device = connect(board)
    device.identify()
    link = device.link
    assert isinstance(link, FakeLink)
    answer = Frame(Command.STATISTICS | protocol.RESPONSE, 1, 1, Status.OK, bytes(7))
    link.waiting += frames.encode(answer.pack())
    with pytest.raises(HostError, match="answered STATISTICS with 7 bytes in the place of 52"):
        device.statistics()


def test_a_port_that_is_gone_is_told(device: Device) -> None:
    device.identify()
    link = device.link
    assert isinstance(link, FakeLink)
    link.is_gone = True
    with pytest.raises(UnpluggedError):
        device.statistics()
    link.comes_back = True
    assert device.reopen().board == "fake"


def test_reset_restarts_or_enters_the_bootloader(board: FakeDevice, device: Device) -> None:
    device.identify()
    with pytest.raises(RefusedError, match="this board cannot do that"):
        device.bootloader()
    board.has_bootloader = True
    device.restart()
    device.identify()
    device.bootloader()
    assert board.in_bootloader


def test_an_unknown_status_is_a_number() -> None:
    assert "status 99" in protocol.meaning(99)
    assert all(protocol.meaning(s) for s in Status)
