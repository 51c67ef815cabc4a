"""Boards train other columns from time to time, those that the simulation trains."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, Selecting, Status

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.cost.elastic import estimated_times
from mcutrain.features.elastic.selector import Periods, TensorSelector
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
SCHEME = "2:0.34,3:0.4,5:0.5,bias:4"
ELASTIC = "2:0.67,3:0.8,4:1,5:0.5,bias:6"
"""Whose arena is large enough to choose in."""
CUTS = 200 if IS_STRESS else 12
MOST_INSTRUCTIONS = {"nucleo-f446re": 8_000_000, "rpi-pico": 20_000_000}
REPLAY, REMEMBER = 1, 5
DISTURBED = (
    [(board, remember) for board in MOST_INSTRUCTIONS for remember in (0, REMEMBER)]
    if IS_STRESS
    else drawn_by_commit([("nucleo-f446re", 0), ("rpi-pico", REMEMBER)], 1)
)
SENT_RATE = Rate(RATE.mult_q31, RATE.shift)


@lru_cache(maxsize=2)
def step(elastic: bool = False) -> TrainingStep:
    scheme = ELASTIC if elastic else SCHEME
    rule = "fisher" if elastic else "drawn"
    return prepare(residual_network(size=16), scheme, swap=rule, elastic=elastic)


@lru_cache(maxsize=1)
def lessons() -> Lessons:
    """So few that the network learns something."""
    x, y = samples(step().graph, 6, 4)
    return x[[i % 6 for i in range(300)]], y[[i % 6 for i in range(300)]]


def simulated(order: list[int], every: int) -> tuple[bytes, list[tuple[int, ...]]]:
    """After training on these lessons, and the columns of the first weight in each period."""
    x, y = lessons()
    simulator = step().simulator(SEED)
    columns = []
    for position, i in enumerate(order):
        if position % every == 0:
            simulator.resample()
            columns.append(tuple(simulator.state[step().plan.training.resampled[0].columns]))
        simulator.train(x[i : i + 1], y[i : i + 1], [RATE])
    return simulator.save(), columns


@pytest.mark.slow
@pytest.mark.parametrize("board", drawn_by_commit(BOARDS, 1))
def test_boards_train_the_columns_that_the_simulation_trains(
    projects_root: Path, tmp_path: Path, board: str
) -> None:
    """300 steps, in which it draws thrice and chooses twice."""
    times = estimated_times(step(True).plan, load_target(board).isa)
    folder = built(projects_root, board, step=step(True), interface=Interface(elastic=times))
    device, periods = on_unicorn(folder), Periods(round(0.85 * 65536), 100)
    state = tmp_path / "state.mcts"
    manifest = BoardProject.read(folder).manifest
    selecting = Selecting(periods.share_q16, periods.every, periods.look)
    record = taught(
        device,
        300,
        save_every=8,
        state=state,
        of=lessons(),
        selecting=selecting,
        manifest=manifest,
        resample_every=100,
    )
    x, y = lessons()
    simulator, looks = step(True).simulator(SEED), []
    selector = TensorSelector(step(True).plan, times, periods)
    for position in range(300):
        place = position % 100
        if place == 0:
            simulator.resample()
            simulator.select(selector.all)
        if place in (0, periods.look):
            looks.append(simulator.save())
        elif place == 2 * periods.look:
            simulator.select(selector.choose(position, (*looks, simulator.save())).tensors)
            looks = []
        simulator.train(x[position : position + 1], y[position : position + 1], [RATE])
    assert device.read_state() == simulator.save() == state.read_bytes()
    assert [at for event, at, _ in record.lines if event == "swapped"] == [0, 100, 200]
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize(("board", "remember"), DISTURBED)
def test_power_cuts_lose_no_column(
    projects_root: Path, tmp_path: Path, board: str, remember: int
) -> None:
    """Draws columns every four steps, so that many cuts come while one is under way."""
    folder = built(projects_root, board, step=step(), interface=Interface(remember=remember))
    replay = REPLAY if remember else 0
    count = 60 // (1 + replay)
    order = with_replays(list(range(count)), replay, REMEMBER).tolist()
    expected, columns = simulated(order, 4)
    assert len(set(columns)) > 5
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
            resample_every=4,
        )
        end_power_cuts(device, link)
        assert device.read_state() == expected == state.read_bytes()


def test_a_board_refuses_what_is_not_due_or_not_there(projects_root: Path) -> None:
    device = on_unicorn(built(projects_root, "nucleo-f446re", step=step()))
    device.reset(SEED)
    assert device.identity.resamples
    for every in (0, 2**32 - 1):
        device.resample(1) if every else None
        with pytest.raises(RefusedError) as refused:
            device.resample(every) if every == 0 else device.write_state(device.read_state())
        assert refused.value.status == (Status.COMMAND if every else Status.SHARE)
    x, y = lessons()
    device.send_sample(x[0].tobytes())
    device.train(int(y[0]), 0, SENT_RATE)
    with pytest.raises(RefusedError) as refused:
        device.resample(2)
    assert refused.value.status == Status.POSITION
    drawn = device.resample(1)
    kept = device.read_state()
    assert device.resample(1) == drawn  # nothing to do: the state is saved, and drawn here
    assert device.read_state() == kept
    assert device.restore().position == 1
    assert device.read_state() != kept  # that was saved before the draw


def test_firmware_that_trains_the_same_columns_draws_none(
    projects_root: Path, tmp_path: Path
) -> None:
    device = on_unicorn(built(projects_root, "nucleo-f446re"))
    assert not device.identify().resamples
    with pytest.raises(RefusedError) as refused:
        device.resample(100)
    assert refused.value.status == Status.COMMAND
    with pytest.raises(HostError, match="firmware of --resample"):
        taught(device, 2, save_every=0, state=tmp_path / "state.mcts", resample_every=1)
