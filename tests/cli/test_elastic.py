"""--elastic: what commands say of the tensors that are trained, and that all choose the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FEW = ("--samples", 60, "--test-samples", 4, "--epochs", 2, "--lr", "0.03", "--scheme", "last:6")
ELASTIC = (*FEW, "--elastic", "0.8", "--every", 40)


@pytest.fixture
def flags(model: Path, images: Path) -> tuple[object, ...]:
    return ("simulate", model, "--data", images)


@pytest.mark.slow
def test_ways_to_compute_train_the_same_tensors_and_say_which(
    run: Run, flags: tuple[object, ...], tmp_path: Path
) -> None:
    ways = (["--reference"], ["--portable", "--latent", "off"], ["--log", "log.jsonl"])
    found = [run(*flags, *ELASTIC, *way, "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    selections = found[0]["selections"]
    assert all(facts["selections"] == selections for facts in found)
    assert [s["step"] for s in selections] == [4, 44, 84]
    for selection in selections:
        assert sum(selection["importance"].values()) == pytest.approx(1)
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged = [e for e in events if e["event"] == "selected"]
    assert [(e["position"], e["tensors"]) for e in logged] == [
        (s["step"], s["tensors"]) for s in selections
    ]
    outcome = run(*flags, *ELASTIC)
    said = outcome.out
    assert "in windows of 2 steps each" in outcome.err
    assert found[0]["warning"] in outcome.err.replace("\n", " ")
    assert f"{len(selections[0]['tensors'])} of " in said
    told = [line for line in said.splitlines() if "tensors from step" in line]
    for selection, line in zip(selections, told, strict=True):
        shares = selection["importance"]
        best = max(shares, key=lambda name: shares[name])
        helped = f"; what helped: {best} " if len(set(shares.values())) > 1 else ""
        assert f"from step {selection['step'] + 1} on{helped}" in line
        assert bool(helped) == ("what helped" in line)  # if nothing did, all are alike


@pytest.mark.slow
@pytest.mark.parametrize("importance", ["moves", "squares"])
def test_an_interrupted_run_chooses_the_same(
    run: Run, flags: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, importance: str
) -> None:
    from mcutrain.runs import finishing
    from mcutrain.runs.watch import Watch
    from mcutrain.simulation import Progress

    elastic = (*ELASTIC, "--importance", importance)
    expected = run(*flags, *elastic, "--json").json
    assert expected["settings"]["importance"] == importance
    finish = finishing.finish

    def stopped_at(step: int) -> None:
        def finish_and_stop(*given: object) -> object:
            others = given[:-1]

            def stop(progress: Progress) -> None:
                if progress.trained >= step:
                    raise KeyboardInterrupt

            return finish(*others, Watch(stop))  # type: ignore[arg-type]

        monkeypatch.setattr(finishing, "finish", finish_and_stop)
        assert run(*flags, *elastic, "--checkpoint", "run.npz").code == 130
        monkeypatch.setattr(finishing, "finish", finish)

    for step in (2, 4, 42, 90):  # within each window, before a choice, and after one
        stopped_at(step)
    found = run(*flags, *elastic, "--checkpoint", "run.npz", "--json").json
    assert found["state_sha256"] == expected["state_sha256"]
    assert found["selections"] == expected["selections"]
    other = ["--elastic", "0.8", "--every", 30]
    assert "belongs to another" in run(*flags, *FEW, *other, "--checkpoint", "run.npz").err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--elastic", "0.05"], "a step cannot take a share of 0.05 of its time: give 0."),
        (["--elastic", "0.8", "--scheme", "head"], "of which nothing can be left out: give one"),
        (["--elastic", "0"], "elastic = 0: give a share of a step"),
        (["--elastic", "1.5"], "elastic = 1.5: give a share of a step"),
        (["--elastic", "nan"], "elastic = nan: give a share of a step"),
        (["--elastic", "0.8", "--every", "2"], "selected every 2 steps: give a number, 3 or more"),
        (
            ["--elastic", "0.8", "--every", "21", "--accumulate", "2"],
            "selected every 21 steps: give a multiple of the 2 samples of an update, 6 or more",
        ),
        (["--every", "20"], "--every is of a run with --elastic SHARE"),
        (["--importance", "squares"], "--importance is of a run with --elastic SHARE"),
        (["--elastic", "0.8", "--board", "rpi-pic"], "there is no board 'rpi-pic'"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    run: Run, flags: tuple[object, ...], given: list[str], said: str
) -> None:
    found = run(*flags, *FEW, *given)
    assert found.code == 2
    assert said in " ".join(found.err.split())


@pytest.mark.slow
def test_squares_choose_otherwise_than_moves(run: Run, flags: tuple[object, ...]) -> None:
    moves, squares = (
        run(*flags, *ELASTIC, "--importance", kind, "--json").json for kind in ("moves", "squares")
    )
    assert moves["selections"] != squares["selections"]
    assert [s["step"] for s in squares["selections"]] == [4, 44, 84]
    reference = run(*flags, *ELASTIC, "--importance", "squares", "--reference", "--json").json
    assert reference["state_sha256"] == squares["state_sha256"]
    assert reference["selections"] == squares["selections"]


@pytest.mark.slow
def test_the_chips_time_decides(run: Run, flags: tuple[object, ...]) -> None:
    found = [
        run(*flags, *ELASTIC, *board, "--json").json
        for board in ([], ["--board", "nucleo-f446re"], ["--board", "rpi-pico"])
    ]
    for facts in found:
        del facts["memory"]
    assert found[0] == {**found[1], "step_us": found[0]["step_us"], "epochs": found[0]["epochs"]}
    assert found[0]["selections"][0]["importance"] == found[2]["selections"][0]["importance"]


def test_a_run_without_it_says_nothing_of_tensors(run: Run, flags: tuple[object, ...]) -> None:
    assert run(*flags, *FEW, "--json").json["selections"] is None
    assert "trained  " not in run(*flags, *FEW).out


@pytest.mark.parametrize("command", [("generate", "-o", "made"), ("plan",)])
@pytest.mark.parametrize("ring", [(), ("--remember", 2)])
def test_a_board_without_slots_for_its_state_is_refused_and_nothing_is_written(
    run: Run, model: Path, tmp_path: Path, command: tuple[str, ...], ring: tuple[object, ...]
) -> None:
    name, *more = command
    flags = ("--scheme", "last:2", "--elastic", "--board", "nucleo-f446re", "--slots", "off")
    outcome = run(name, model, *flags, *ring, *more)
    assert outcome.code == 2
    why = "nucleo-f446re cannot choose what it trains (--elastic), for it compares states that its "
    why += "slots keep: the program has the flash of the slots; another board, a smaller scheme, "
    assert why + "or no --elastic" in outcome.err.replace("\n", " ")
    assert not (tmp_path / "made").exists()


def test_slots_have_room_for_the_states_that_a_choice_needs_beside_a_ring(
    run: Run, model: Path, tmp_path: Path
) -> None:
    flags = ("--scheme", "last:2", "--board", "nucleo-f303re", "--remember", 100_000)
    most = []
    for elastic in ((), ("--elastic",)):
        outcome = run("plan", model, *flags, *elastic)
        assert outcome.code == 2
        words = outcome.err.replace("\n", " ").split(" latents of ")[0].split()
        most.append(int(words[-1].replace(",", "")))
    plain, with_choice = most
    assert 0 < with_choice < plain
