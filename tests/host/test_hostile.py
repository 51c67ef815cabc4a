"""Whatever a board says, the host ends with its work or with a sentence, and prints it clean."""

import io
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from mcutrain_host import pull, saved
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import HostError, NoResultError
from mcutrain_host.live.sources import BoardSource
from mcutrain_host.log import JsonLines
from mcutrain_host.protocol import Command, Identity, MalformedResponseError, Status
from mcutrain_host.text import printable
from mcutrain_host.trainer import Begin, Lessons, Settings, Training
from rich.console import Console

from mcutrain.cli.live import picture
from tests.host.fake_device import CHAIN, MODEL_HASH, Chain, FakeDevice
from tests.host.hostile import Liar, SlowLink, WorkingLink
from tests.host.test_trainer import Watch, rate_at, sample_at

SEEDS = range(200)
LESSONS = Lessons(6, sample_at, rate_at, 2, sample_at)


class Talk:
    """One program that has to do with one board."""

    def __init__(self, folder: Path, board: FakeDevice, link: type[SlowLink] = SlowLink) -> None:
        self.folder, self.board = folder, board
        self.link = link(board)
        self.device = Device(
            self.link, Patience(0.2, work_seconds=5.0), sessions=count(1), clock=self.link.clock
        )
        self.state = folder / "trained.mcts"
        self.watch = Watch()
        self.watch.tested = lambda done, of: None  # type: ignore[method-assign]

    def train(self, begin: Begin = Begin.BOARD) -> None:
        log = JsonLines(self.folder / "train.jsonl")
        how = Settings(CHAIN, 7, self.state, 3, begin, self.folder / "other.mcts")
        try:
            Training(self.device, LESSONS, how, log, self.watch).run()
        finally:
            log.close()

    def pull(self) -> None:
        pull.pull(self.device, CHAIN, self.state)

    def watch_once(self) -> None:
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=True, color_system=None, width=200)
        console.print(picture((BoardSource(self.device).ask(),), 200, 50))
        assert is_clean(screen.getvalue().replace("\n", ""))


def is_clean(text: str) -> bool:
    return text.isprintable()


def sentence_of(work: Callable[[], None]) -> str:
    """What a program ends with; nothing if it did its work."""
    try:
        work()
    except HostError as error:
        return str(error)
    return ""


def learnt(samples: int) -> bytes:
    network = Chain()
    for position in range(samples):
        rate = rate_at(position)
        network.train(*sample_at(position), rate.mult_q31, rate.shift)
    return network.save()


@pytest.mark.parametrize("block", range(5))
def test_a_board_that_lies_ends_no_program_but_with_a_sentence(tmp_path: Path, block: int) -> None:
    before, other = learnt(2), learnt(4)
    for seed in SEEDS[block::5]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "other.mcts").write_bytes(other)
        talk = Talk(folder, Liar(seed))
        begin = (Begin.BOARD, Begin.FRESH, Begin.FILE)[seed % 3]
        if begin is not Begin.BOARD:
            talk.state.write_bytes(before)
        for work in (talk.watch_once, lambda talk=talk, begin=begin: talk.train(begin), talk.pull):
            assert is_clean(sentence_of(work)), seed
        assert all(is_clean(sentence) for sentence in talk.watch.sentences)
        if begin is not Begin.BOARD or talk.state.exists():  # as it was, or a sound state
            assert len(saved.read(talk.state, MODEL_HASH).raw) == len(before)
        assert (folder / "other.mcts").read_bytes() == other
        assert {path.name for path in folder.iterdir()} <= {
            "trained.mcts",
            "other.mcts",
            "train.jsonl",
        }


def test_a_board_that_works_for_ever_is_given_up(tmp_path: Path) -> None:
    talk = Talk(tmp_path, FakeDevice(), WorkingLink)
    talk.device.identify()
    talk.board._save = lambda body: (Status.WORKING, b"")  # type: ignore[method-assign]
    with pytest.raises(NoResultError, match="says that it works on SAVE, but gave no result in"):
        talk.device.save()
    assert talk.link.now < 60


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("max_body", 4, "a max_body of 4; 28 to 512 are possible"),
        ("max_body", 60_000, "a max_body of 60000"),
        ("saved_bytes", (1 << 32) - 1, "4,294,967,295 bytes for the saved form"),
        ("classes", 0, "classes of 0"),
        ("samples_per_update", 0, "samples_per_update of 0"),
    ],
)
def test_an_identity_that_no_board_has_is_a_sentence(field: str, value: int, says: str) -> None:
    honest = identity()
    with pytest.raises(MalformedResponseError, match=says):
        Identity.parse(Identity(**{**vars(honest), field: value}).pack())


@pytest.mark.parametrize(
    ("field", "value"),
    [("input_bytes", 7), ("output_bytes", 1 << 31), ("classes", 2), ("samples_per_update", 2)],
)
@pytest.mark.parametrize("work", ["train", "pull"])
def test_a_board_of_the_project_has_its_sizes(
    tmp_path: Path, work: str, field: str, value: int
) -> None:
    talk = Talk(tmp_path, FakeDevice())
    honest = identity()
    talk.board._identify = lambda body: (  # type: ignore[method-assign]
        Status.OK,
        Identity(**{**vars(honest), field: value}).pack(),
    )
    with pytest.raises(HostError, match=f"{field} of {value:,} in the place of"):
        getattr(talk, work)()
    assert {command for command, _ in talk.board.carried_out} == {Command.IDENTIFY}
    assert not talk.state.exists()


def test_a_saved_form_of_4_gigabytes_is_not_read(tmp_path: Path) -> None:
    talk = Talk(tmp_path, FakeDevice())
    honest = identity()
    huge = Identity(**{**vars(honest), "state_bytes": (1 << 32) - 25, "saved_bytes": (1 << 32) - 1})
    talk.board._identify = lambda body: (Status.OK, huge.pack())  # type: ignore[method-assign]
    with pytest.raises(HostError, match="state_bytes of 4,294,967,271 in the place of 712"):
        talk.pull()


@pytest.mark.parametrize("says", [0, 1, 3, 1 << 31])
def test_a_position_that_does_not_advance_by_one_is_a_sentence(tmp_path: Path, says: int) -> None:
    talk = Talk(tmp_path, FakeDevice())
    step = talk.board._train

    def train(body: bytes) -> tuple[int, bytes]:
        status, answer = step(body)
        return status, answer[:8] + says.to_bytes(4, "little") + answer[12:]

    talk.board._train = train  # type: ignore[method-assign]
    at = 0 if says != 1 else 1
    with pytest.raises(HostError, match=f"TRAIN with a wrong number: position {says:,} in the"):
        talk.train()
    assert talk.board.position == at + 1


def test_a_board_that_forgets_each_step_is_given_up(tmp_path: Path) -> None:
    talk = Talk(tmp_path, FakeDevice())
    talk.board.flash.slots = False
    step = talk.board._train

    def train(body: bytes) -> tuple[int, bytes]:
        if talk.board.position == 2:
            talk.board.restart_after = 0
        return step(body)

    talk.board._train = train  # type: ignore[method-assign]
    with pytest.raises(HostError, match="broke off 100 times, and it never came past position 3"):
        talk.train()


def test_a_save_of_another_position_is_a_sentence(tmp_path: Path) -> None:
    talk = Talk(tmp_path, FakeDevice())
    talk.board._save = lambda body: (Status.OK, bytes(8))  # type: ignore[method-assign]
    with pytest.raises(HostError, match="saved a state of position 0 in the place of 3"):
        talk.train()


def test_a_count_of_right_answers_above_all_is_a_sentence(tmp_path: Path) -> None:
    talk = Talk(tmp_path, FakeDevice())
    talk.board._evaluate = lambda body: (  # type: ignore[method-assign]
        Status.OK,
        bytes(4) + (1).to_bytes(4, "little") + (9).to_bytes(4, "little") + bytes(8),
    )
    with pytest.raises(
        HostError, match="EVALUATE with a wrong number: correct 9 in the place of 1"
    ):
        talk.train()


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("NUCLEO-F446RE", "NUCLEO-F446RE"),
        ("größer 板", "größer 板"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u202eexe.png", "\\u202eexe.png"),
        ("\x9b2J\x7f\x85", "\\x9b2J\\x7f\\x85"),
        ("a\xa0b", "a b"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(foreign: str, shown: str) -> None:
    assert printable(foreign) == shown


def identity() -> Identity:
    return Identity.parse(FakeDevice()._identify(b"")[1])
