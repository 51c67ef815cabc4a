"""The device keeps docs/protocol.md: frames, sessions, steps done once, states whole or refused."""

from __future__ import annotations

import struct
import zlib

import pytest
from cobs import cobs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.device import INPUT_BYTES, FakeDevice, frame

SAMPLE, INFER, TRAIN, EVALUATE, SET_RATE = 2, 3, 4, 5, 6
STATISTICS, READ_STATE, WRITE_STATE, SAVE, RESTORE, RESET, READ_OUTPUT = range(7, 14)
OK, WORKING, FRAME, VERSION, COMMAND, LENGTH, SESSION, SEQUENCE = 0, 1, 16, 17, 18, 19, 20, 21
OFFSET, SAMPLE_INCOMPLETE, LABEL, POSITION, RATE, NO_SAVED, MODEL, CHECKSUM = range(22, 30)
STATE_INCOMPLETE = 31
RATE_BODY = struct.pack("<ii", 1 << 30, -4)
same_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Talk:
    """Requests with the right sequence numbers."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.sequence = 0
        self.identity = device.identify()

    def ask(self, command: int, body: bytes = b""):
        self.sequence += 1
        return self.device.ask(command, self.sequence, body)

    def sample(self, value: int = 1) -> int:
        """Returns how many pieces it takes."""
        data = bytes([value]) * INPUT_BYTES
        offsets = range(0, INPUT_BYTES, 508)
        for offset in offsets:
            answer = self.ask(SAMPLE, offset.to_bytes(4, "little") + data[offset : offset + 508])
            assert answer.status == OK
        return len(offsets)

    def train(self, label: int, position: int, rate: bytes = RATE_BODY):
        return self.ask(TRAIN, struct.pack("<iI", label, position) + rate)


@pytest.fixture
def talk(device) -> Talk:
    return Talk(device)


def test_identify_says_what_the_board_is(talk):
    body = talk.identity.body
    assert struct.unpack_from("<HHQII", body) == (512, 6, 0x0123456789ABCDEF, 0, INPUT_BYTES)
    assert body[60:].split(b"\0") == [b"memory", b"fake", b"nothing", b""]


def test_a_step_is_answered_with_working_and_then_its_result(talk):
    pieces = talk.sample()
    request = frame(TRAIN, talk.sequence + 1, struct.pack("<iI", 3, 0) + RATE_BODY)
    working, result = talk.device.send_bytes(request)
    assert (working.status, working.body, result.status) == (WORKING, b"", OK)
    loss, prediction, position, cycles, saturations = struct.unpack("<iiIQI", result.body)
    assert (loss, prediction, position, saturations) == ((1 << 30) ^ -4, 0, 1, 3)
    assert cycles == 1000 * (1 + pieces), "the step, and the rows of its sample"


def test_the_time_of_a_step_has_the_rows_of_its_own_sample_alone(talk):
    for position in range(3):
        pieces = talk.sample()
        body = talk.train(3, position).body
        assert struct.unpack_from("<Q", body, 12) == (1000 * (1 + pieces),)


def test_of_equal_scores_the_first_class_is_predicted(talk):
    talk.sample(3)
    prediction, _ = struct.unpack("<iQ", talk.ask(INFER).body)
    scores = struct.unpack("10b", talk.ask(READ_OUTPUT, struct.pack("<IH", 0, 10)).body)
    assert (scores, prediction) == ((2, *(3,) * 9), 1)


@given(st.integers(1, 5))
@same_device
def test_a_repeated_step_is_trained_once_and_answered_alike(device, times):
    device.c.fake_erase_flash()
    device.c.fake_begin()
    talk = Talk(device)
    talk.sample()
    request = frame(TRAIN, talk.sequence + 1, struct.pack("<iI", 3, 0) + RATE_BODY)
    first = device.send_bytes(request)[-1]
    for _ in range(times):
        assert device.send_bytes(request) == [first]
    assert device.c.fake_trained() == 1


def test_a_step_from_another_position_is_refused_and_says_the_right_one(talk):
    talk.sample()
    answer = talk.train(3, 5)
    assert (answer.status, answer.body) == (POSITION, b"\0\0\0\0")
    assert talk.train(3, 0).status == OK
    talk.sample()
    assert talk.train(3, 0).status == POSITION
    assert talk.device.c.fake_trained() == 1


@pytest.mark.parametrize("label", [-1, 10, 2**31 - 1, -(2**31)])
def test_a_wrong_label_is_refused(talk, label):
    talk.sample()
    assert talk.train(label, 0).status == LABEL
    assert talk.device.c.fake_trained() == 0


@pytest.mark.parametrize(
    "rate", [(1, 0), (-1, 0), (1 << 30, 32), (1 << 30, -1101), (2**31 - 1, 99)]
)
def test_a_rate_that_is_not_normalized_is_refused(talk, rate):
    talk.sample()
    assert talk.train(1, 0, struct.pack("<ii", *rate)).status == RATE
    assert talk.ask(SET_RATE, struct.pack("<ii", *rate)).status == RATE


@pytest.mark.parametrize("rate", [(1 << 30, 31), (1 << 30, -1100), (2**31 - 1, 0), (0, 0)])
def test_rates_up_to_the_limits_are_taken(talk, rate):
    assert talk.ask(SET_RATE, struct.pack("<ii", *rate)).status == OK


def test_a_step_without_rate_takes_the_one_that_was_set(talk):
    talk.sample()
    assert talk.train(1, 0, b"").status == RATE
    assert talk.ask(SET_RATE, RATE_BODY).status == OK
    assert talk.train(1, 0, b"").status == OK


def test_training_uses_the_sample_up(talk):
    talk.sample()
    assert talk.train(1, 0).status == OK
    assert talk.train(1, 1).status == SAMPLE_INCOMPLETE


def test_a_gap_in_the_sample_is_refused_and_says_where_to_go_on(talk):
    assert talk.ask(SAMPLE, (0).to_bytes(4, "little") + bytes(100)).status == OK
    answer = talk.ask(SAMPLE, (200).to_bytes(4, "little") + bytes(100))
    assert (answer.status, answer.body) == (OFFSET, (100).to_bytes(4, "little"))
    answer = talk.ask(SAMPLE, (100).to_bytes(4, "little") + bytes(508))
    assert answer.status == OK
    answer = talk.ask(SAMPLE, (608).to_bytes(4, "little") + bytes(93))
    assert answer.status == OFFSET


@pytest.mark.parametrize("sequence", [0, 2, 3, 65535])
def test_a_request_out_of_order_is_refused(talk, sequence):
    before = talk.device.ask(STATISTICS, 1)
    assert before.status == OK
    answer = talk.device.ask(SAVE, sequence)
    assert answer.status == (OK if sequence == 2 else SEQUENCE)


def test_sequence_numbers_wrap(device):
    device.ask(0x01, 65535, session=9)
    assert device.ask(STATISTICS, 0, session=9).status == OK


def test_another_session_is_refused_until_it_is_begun(talk):
    assert talk.device.ask(STATISTICS, 1, session=8).status == SESSION
    assert talk.device.identify(session=8).status == OK
    assert talk.device.ask(STATISTICS, 1, session=8).status == OK
    assert talk.device.ask(STATISTICS, 1, session=7).status == SESSION


def test_a_late_copy_of_identify_does_not_begin_the_session_anew(talk):
    talk.ask(STATISTICS)
    talk.ask(STATISTICS)
    assert talk.device.identify().status == SEQUENCE
    assert talk.ask(STATISTICS).status == OK


def test_another_version_is_refused(device):
    answers = device.send_bytes(frame(0x01, 0, version=2))
    assert [a.status for a in answers] == [VERSION]


@pytest.mark.parametrize("command", [0, 14, 127, 255])
def test_an_unknown_command_is_refused(talk, command):
    assert talk.ask(command).status == COMMAND


@pytest.mark.parametrize("command", [INFER, TRAIN, EVALUATE, SET_RATE, STATISTICS, SAVE, RESET])
def test_a_body_of_the_wrong_length_is_refused(talk, command):
    assert talk.ask(command, bytes(3)).status == LENGTH


@given(data=st.binary(min_size=1, max_size=700), where=st.data())
@same_device
def test_damaged_frames_are_answered_and_change_nothing(device, data, where):
    device.identify()
    before = device.state()
    good = frame(TRAIN, 1, data[:500])
    i = where.draw(st.integers(1, len(good) - 2))
    bit = where.draw(st.integers(0, 7))
    damaged = good[:i] + bytes([good[i] ^ (1 << bit)]) + good[i + 1 :]
    answers = device.send_bytes(damaged)
    assert answers
    assert {a.status for a in answers} == {FRAME}
    assert device.state() == before


def test_a_frame_that_ends_within_a_block_is_damaged_though_its_checksum_is_right(talk):
    request = bytearray(frame(STATISTICS, 1))
    code = 1
    while code + request[code] < len(request) - 1:
        code += request[code]
    request[code] += 1
    (answer,) = talk.device.send_bytes(bytes(request))
    assert answer.status == FRAME
    assert talk.ask(STATISTICS).status == OK


def test_a_frame_that_is_too_long_is_refused(talk):
    content = bytes([1, READ_STATE]) + struct.pack("<HHH", 7, 1, 0) + bytes(513)
    wire = b"\0" + cobs.encode(content + zlib.crc32(content).to_bytes(4, "little")) + b"\0"
    assert [a.status for a in talk.device.send_bytes(wire)] == [FRAME]
    assert [a.status for a in talk.device.send_bytes(bytes([255] * 5000) + b"\0")] == [FRAME]
    assert talk.ask(STATISTICS).status == OK


def test_reading_returns_the_saved_form_in_pieces(talk):
    talk.sample(9)
    talk.train(2, 0)
    state = talk.device.state()
    read = b""
    while len(read) < len(state):
        read += talk.ask(READ_STATE, struct.pack("<IH", len(read), 100)).body
    assert read == state
    assert talk.ask(READ_STATE, struct.pack("<IH", len(state), 9)).body == b""
    assert talk.ask(READ_STATE, struct.pack("<IH", len(state) + 1, 9)).status == OFFSET


def write(talk: Talk, state: bytes) -> list[int]:
    return [
        talk.ask(WRITE_STATE, i.to_bytes(4, "little") + state[i : i + 300]).status
        for i in range(0, len(state), 300)
    ]


def test_a_written_state_is_the_one_that_trains_on(talk):
    talk.sample(9)
    talk.train(2, 0)
    state = talk.device.state()
    talk.sample(5)
    talk.train(1, 1)
    assert set(write(talk, state)) == {OK}
    assert talk.device.state() == state
    talk.sample(5)
    assert talk.train(1, 1).status == OK


def test_a_state_written_in_part_cannot_be_trained_read_or_saved(talk):
    state = talk.device.state()
    assert talk.ask(WRITE_STATE, bytes(4) + state[:300]).status == OK
    talk.sample()
    for command, body in ((INFER, b""), (SAVE, b""), (READ_STATE, struct.pack("<IH", 0, 9))):
        assert talk.ask(command, body).status == STATE_INCOMPLETE
    assert talk.train(1, 0).status == STATE_INCOMPLETE
    assert talk.ask(RESET, struct.pack("<BI", 0, 1)).status == OK
    talk.sample()
    assert talk.train(1, 0).status == OK


def test_a_damaged_state_is_refused_and_leaves_none(talk):
    state = bytearray(talk.device.state())
    state[100] ^= 1
    assert write(talk, bytes(state))[-1] == CHECKSUM
    assert talk.ask(SAVE).status == STATE_INCOMPLETE


def test_a_state_with_a_bias_beyond_its_limit_is_refused_though_its_checksum_is_right(talk):
    state = talk.device.state()
    for bias, answer in ((2**30 + 1, CHECKSUM), (-(2**30) - 1, CHECKSUM), (-(2**30), OK)):
        content = state[24:36] + bytes(4) + struct.pack("<i", bias) + state[44:]
        crc = zlib.crc32(content, zlib.crc32(state[:20]))
        assert write(talk, state[:20] + struct.pack("<I", crc) + content)[-1] == answer
    assert talk.device.state()[24:] == content


@pytest.mark.parametrize("zero", [0, 252, 253, 254, 255, 256, 508, 600])
def test_a_response_with_a_zero_anywhere_arrives_as_it_was_sent(talk, zero):
    """A block of COBS holds 254 bytes; one as long as that stands for no zero behind it."""
    state = talk.device.state()
    content = (bytes([1]) * zero + b"\0" + bytes([1]) * 600)[:600]
    crc = zlib.crc32(content, zlib.crc32(state[:20]))
    assert write(talk, state[:20] + struct.pack("<I", crc) + content)[-1] == OK
    assert talk.ask(READ_STATE, struct.pack("<IH", 24, 512)).body == content[:512]


def test_a_state_of_another_model_is_refused_before_anything_changes(talk):
    state = bytearray(talk.device.state())
    state[8] ^= 1
    before = talk.device.state()
    assert talk.ask(WRITE_STATE, bytes(4) + bytes(state[:300])).status == MODEL
    assert talk.device.state() == before
    assert talk.ask(SAVE).status == OK


def test_save_and_restore_bring_back_the_state(talk):
    assert talk.ask(RESTORE).status == NO_SAVED
    talk.sample(9)
    talk.train(2, 0)
    saved = talk.device.state()
    assert talk.ask(SAVE).body == struct.pack("<II", 1, 1)
    talk.sample(8)
    talk.train(2, 1)
    assert talk.ask(RESTORE).body == struct.pack("<II", 1, 1)
    assert talk.device.state() == saved


def test_a_repeated_save_is_done_once(talk):
    first = talk.ask(SAVE)
    again = talk.device.ask(SAVE, talk.sequence)
    assert first == again
    assert talk.ask(SAVE).body == struct.pack("<II", 2, 0)


def test_evaluation_counts_each_sample_once(talk):
    for index in range(3):
        talk.sample(index)
        answer = talk.ask(EVALUATE, struct.pack("<iI", 0, index))
        again = talk.device.ask(EVALUATE, talk.sequence, struct.pack("<iI", 0, index))
        assert answer == again
        assert struct.unpack_from("<I", answer.body, 4) == (index + 1,)
    talk.sample()
    assert talk.ask(EVALUATE, struct.pack("<iI", 0, 1)).status == POSITION


def test_scores_can_be_read_until_the_next_sample(talk):
    talk.sample(3)
    talk.ask(INFER)
    assert len(talk.ask(READ_OUTPUT, struct.pack("<IH", 0, 512)).body) == 10
    talk.sample(3)
    assert talk.ask(READ_OUTPUT, struct.pack("<IH", 0, 512)).status == SAMPLE_INCOMPLETE


@pytest.mark.parametrize("command", [RESTORE, RESET, WRITE_STATE])
def test_a_sample_and_scores_are_forgotten_where_the_state_is_replaced(talk, command):
    assert talk.ask(SAVE).status == OK
    state = talk.device.state()
    bodies = {RESTORE: b"", RESET: struct.pack("<BI", 0, 1)}
    for is_inferred in (False, True):
        talk.sample(3)
        if is_inferred:
            assert talk.ask(INFER).status == OK
        if command == WRITE_STATE:
            assert set(write(talk, state)) == {OK}
        else:
            assert talk.ask(command, bodies[command]).status == OK
        assert talk.ask(INFER).status == SAMPLE_INCOMPLETE
        assert talk.ask(READ_OUTPUT, struct.pack("<IH", 0, 512)).status == SAMPLE_INCOMPLETE


@pytest.mark.parametrize("kind", [1, 2])
def test_a_restart_ends_the_session(talk, kind):
    assert talk.ask(RESET, struct.pack("<BI", kind, 0)).status == OK
    assert talk.device.c.fake_restarts() == 1
    assert talk.ask(STATISTICS).status == SESSION


def test_statistics_count_frames_and_repeats(talk):
    talk.device.send_bytes(b"\x05abc\0")
    talk.ask(SAVE)
    talk.device.ask(SAVE, talk.sequence)
    body = talk.ask(STATISTICS).body
    assert len(body) == 52
    assert struct.unpack_from("<IIIII", body, 32) == (64, 4, 1, 1, 1)
