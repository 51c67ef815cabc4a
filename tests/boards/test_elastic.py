"""Boards choose what they train, and choose what the simulation chooses."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from mcutrain_host.errors import RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, Selecting, Status
from mcutrain_host.saved import selected_tensors

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.cost.elastic import estimated_times
from mcutrain.features.elastic.selector import MOVES, SQUARES, Decision, Periods, TensorSelector
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.replay import with_replays
from mcutrain.target import load_target
from tests.boards.projects import RATE, SEED, Lessons, built
from tests.boards.stress import boards_with_power_cuts, end_power_cuts, taught
from tests.boards.test_faults import IS_STRESS
from tests.boards.test_same_bits import on_unicorn
from tests.drawing import drawn_by_commit
from tests.simulation.networks import residual_network, samples

BOARDS = ("rpi-pico", "nucleo-f446re", "stm32f746g-disco")
CUTS = 200 if IS_STRESS else 12
MOST_INSTRUCTIONS = {"nucleo-f446re": 8_000_000, "rpi-pico": 20_000_000}
REPLAY, REMEMBER = 1, 5
DISTURBED = (
    [(board, remember) for board in MOST_INSTRUCTIONS for remember in (0, REMEMBER)]
    if IS_STRESS
    else drawn_by_commit([("rpi-pico", REMEMBER), ("nucleo-f446re", 0)], 1)
)
SENT_RATE = Rate(RATE.mult_q31, RATE.shift)


@lru_cache(maxsize=1)
def step() -> TrainingStep:
    return prepare(residual_network(size=16), "last:4", elastic=True)


@lru_cache(maxsize=1)
def lessons() -> Lessons:
    """So few that the network learns something."""
    x, y = samples(step().graph, 6, 4)
    return x[[i % 6 for i in range(160)]], y[[i % 6 for i in range(160)]]


def interface(board: str, remember: int = 0) -> Interface:
    times = estimated_times(step().plan, load_target(board).isa)
    return Interface(remember=remember, elastic=times)


def simulated(
    board: str, order: list[int], periods: Periods, measure: str = MOVES
) -> tuple[bytes, list[Decision]]:
    """After training on these lessons, by the choices of the board's times."""
    x, y = lessons()
    simulator = step().simulator(SEED)
    times = estimated_times(step().plan, load_target(board).isa)
    selector = TensorSelector(step().plan, times, periods, measure)
    decisions: list[Decision] = []
    looks: list[bytes] = []
    for position, i in enumerate(order):
        place = position % periods.every
        if place == 0:
            simulator.select(selector.all)
        if place in selector.looks:
            looks.append(simulator.save())
        elif place == 2 * periods.look:
            decisions.append(selector.choose(position, (*looks, simulator.save())))
            simulator.select(decisions[-1].tensors)
            looks = []
        simulator.train(x[i : i + 1], y[i : i + 1], [RATE])
    return simulator.save(), decisions


def selecting(periods: Periods, measure: str = MOVES) -> Selecting:
    return Selecting(periods.share_q16, periods.every, periods.look, measure == SQUARES)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("board", "measure"),
    [*((board, MOVES) for board in drawn_by_commit(BOARDS, 1)), (BOARDS[0], SQUARES)],
)
def test_boards_choose_what_the_simulation_chooses(
    projects_root: Path, tmp_path: Path, board: str, measure: str
) -> None:
    """160 steps, in which it chooses twice."""
    folder = built(projects_root, board, step=step(), interface=interface(board))
    device = on_unicorn(folder)
    periods = Periods(round(0.9 * 65536), 80)
    state = tmp_path / "state.mcts"
    project = BoardProject.read(folder)
    record = taught(
        device,
        160,
        save_every=4,
        state=state,
        of=lessons(),
        selecting=selecting(periods, measure),
        manifest=project.manifest,
    )
    expected, decisions = simulated(board, list(range(160)), periods, measure)
    assert device.read_state() == expected == state.read_bytes()
    names = [t.name for t in step().plan.training.elastic]
    assert 2 < len(decisions[0].tensors) < len(names)
    if measure == MOVES:
        assert len({d.tensors for d in decisions}) == 2
    saves = {at for event, at, _ in record.lines if event == "saved"}
    assert {12, 76, 92} < saves  # but none that might displace what the choice compares
    assert not saves.intersection((*range(1, 9), *range(80, 89)))
    logged = [(at, facts["tensors"]) for event, at, facts in record.lines if event == "selected"]
    assert logged == [(d.step, tuple(names[i] for i in d.tensors)) for d in decisions]
    assert logged[-1][1] == selected_tensors(expected, project.manifest.table, names)
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes
    assert project.manifest.elastic.backward_time > 0


@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize(("board", "remember"), DISTURBED)
def test_power_cuts_change_no_choice_and_no_bit(
    projects_root: Path, tmp_path: Path, board: str, remember: int
) -> None:
    folder = built(projects_root, board, step=step(), interface=interface(board, remember))
    manifest = BoardProject.read(folder).manifest
    periods, replay = Periods(round(0.85 * 65536), 20), REPLAY if remember else 0
    count = 60 // (1 + replay)
    order = with_replays(list(range(count)), replay, REMEMBER).tolist()
    expected, _ = simulated(board, order, periods)
    boards = boards_with_power_cuts(folder, CUTS, MOST_INSTRUCTIONS[board])
    for device, link, number in boards:
        state = tmp_path / f"{number}.mcts"
        taught(
            device,
            count,
            save_every=3,
            state=state,
            of=lessons(),
            ring=(replay, remember),
            selecting=selecting(periods),
            manifest=manifest,
        )
        end_power_cuts(device, link)
        assert device.read_state() == expected == state.read_bytes()


def test_a_board_refuses_what_is_not_due_or_not_there(projects_root: Path) -> None:
    board = "nucleo-f446re"
    device = on_unicorn(built(projects_root, board, step=step(), interface=interface(board)))
    device.reset(SEED)

    def refusal(share_q16: int, every: int) -> Status:
        wanted = Selecting(0, every, 1)
        object.__setattr__(wanted, "share_q16", share_q16)  # as another host may send it
        with pytest.raises(RefusedError) as refused:
            device.select(wanted)
        return Status(refused.value.status)

    assert device.identity.selects
    assert refusal(60_000, 2) == refusal(60_000, 0) == refusal(60_000, 2**24) == Status.SHARE
    x, y = lessons()
    for position in range(4):
        device.send_sample(x[position].tobytes())
        device.train(int(y[position]), position, SENT_RATE)
    assert refusal(60_000, 100) == Status.POSITION
    assert refusal(60_000, 40) == Status.NOT_KEPT  # it looks at states of 0 and 2
    for share_q16 in (65_537, 2**17, 2**31, 2**32 - 1):
        assert refusal(share_q16, 4) == Status.SHARE
        with pytest.raises(ValueError, match="give 0 to 65536"):
            Selecting(share_q16, 4, 1)
    assert device.select(Selecting(65_536, 4, 1)).position == 4
    assert device.select(Selecting(60_000, 4, 1)).position == 4
    assert device.select(Selecting(60_000, 80, 4)).position == 4
    assert device.restore().position == 4


def test_firmware_that_trains_all_knows_no_choice(projects_root: Path) -> None:
    device = on_unicorn(built(projects_root, "nucleo-f446re"))
    assert not device.identity.selects
    with pytest.raises(RefusedError) as refused:
        device.select(Selecting(60_000, 100, 5))
    assert refused.value.status == Status.COMMAND
