"""--proxies: commands with a ladder of fronts take the same ones, and say how many took each."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mcutrain_host.manifest import Manifest

from mcutrain import prepare
from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.errors import ArgumentError
from mcutrain.experiments.parallel import Lesson
from mcutrain.features import FACTS
from mcutrain.features.policy_feedback.policy import LEVEL_DRIFT
from mcutrain.functions import comparing, planning
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, picture, rows_kept, to_csv
from mcutrain.pipeline import load
from mcutrain.proxies import LADDER_FILE, kept_ladder, write_ladder
from mcutrain.selection.contribution import Contributions, Gains, digest
from mcutrain.sparse import find_head, layers_of
from tests.cli.conftest import Board, Run, done
from tests.cli.test_train import events
from tests.drawing import drawn_by_commit
from tests.proxies import ladders

SCHEME = ("--scheme", ladders.SCHEME)
FEW = ("--samples", 20, "--test-samples", 4, "--epochs", 2, "--lr", "0.03")
STEPS = 40


@pytest.fixture(scope="module")
def whole() -> Graph:
    return ladders.front_of(ladders.step())[0]


@pytest.fixture(scope="module")
def made(whole: Graph) -> Ladder:
    """With a policy that takes one front or another, by the mean of the image."""
    ladder = ladders.ladder(whole)
    return replace(ladder, policy=ladders.policy_of_brightness(whole, ladder.levels))


@pytest.fixture(scope="module")
def proxies(whole: Graph, made: Ladder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proxies") / "ladder"
    write_ladder(made, folder, whole, {"scheme": ladders.SCHEME})
    return folder


@pytest.mark.slow
def test_ways_to_compute_take_the_same_fronts_and_say_how_often(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW, "--proxies", proxies)
    ways = (["--reference"], ["--portable"], ["--log", "log.jsonl"])
    found = [run(*flags, *way, "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    levels = found[0]["levels"]
    assert all(facts["levels"] == levels for facts in found)
    assert (len(levels), sum(levels)) == (3, STEPS)
    assert min(levels) > 3
    each = [epoch["levels"] for epoch in found[0]["epochs"]]
    assert [sum(counts) for counts in zip(*each, strict=True)] == levels
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["levels"]) == ("finished", levels)
    said = run(*flags, "--gate", 1)
    assert "levels          " + " + ".join(map(str, levels)) in said.out
    assert "skipped         " in said.out
    assert "levels " + " + ".join(map(str, each[0])) in said.err


@pytest.mark.slow
def test_a_choice_that_drifts_is_said_with_its_levels(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW, "--proxies", proxies)
    plain = run(*flags, "--json").json
    ways = (["--reference"], ["--log", "log.jsonl"])
    found = [run(*flags, "--policy-feedback", *way, "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    facts = found[0]
    assert facts["state_bytes"] == plain["state_bytes"] + 8
    assert facts["levels"] != plain["levels"]
    assert facts["drift"] != 0
    assert facts["epochs"][-1]["drift"] == facts["drift"]
    assert plain["drift"] is None
    assert not any("drift" in epoch for epoch in plain["epochs"])
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (last["levels"], last["drift"]) == (facts["levels"], facts["drift"])
    said = run(*flags, "--policy-feedback")
    kind = "cheaper" if facts["drift"] > 0 else "dearer"
    assert f"drift           {facts['drift']:+g} of a score for each level: {kind}" in said.out
    assert f", drift {facts['drift']:+g}" in said.err


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("drift", [[], ["--policy-feedback"]], ids=["policy", "drift"])
def test_a_run_goes_on_from_a_checkpoint_with_its_counts(
    run: Run, model: Path, images: Path, proxies: Path, drift: list[str]
) -> None:
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW, "--proxies", proxies, *drift)
    whole = run(*flags, "--checkpoint", "a.npz", "--json").json
    again = run(*flags, "--checkpoint", "a.npz", "--json").json
    assert again["levels"] == whole["levels"]
    assert again["epochs"] == whole["epochs"]


@pytest.mark.slow
def test_samples_of_one_level_are_put_together(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    """Each is learnt once in each epoch; levels, and what resumes, stay what they are."""
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW, "--proxies", proxies)
    flags = (*flags, "--accumulate", 4)
    mixed = run(*flags, "--json").json
    level = (*flags, "--batches", "level")
    ways = (["--reference"], ["--checkpoint", "run.npz"], ["--checkpoint", "run.npz"])
    found = [run(*level, *way, "--log", "log.jsonl", "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    assert found[0]["state_sha256"] != mixed["state_sha256"]
    assert found[0]["levels"] == mixed["levels"]
    assert found[0]["epochs"][0]["levels"] == mixed["epochs"][0]["levels"]
    assert mixed["mixed_batches"] is None
    assert 0 < found[0]["mixed_batches"] < STEPS // 4
    counts = [epoch["mixed_batches"] for epoch in found[0]["epochs"]]
    assert sum(counts) == found[0]["mixed_batches"]
    varied = [run(*level, "--flip", *way, "--json").json for way in ([], ["--reference"])]
    assert varied[0]["state_sha256"] == varied[1]["state_sha256"] != found[0]["state_sha256"]
    said = run(*level).out
    left = found[0]["mixed_batches"]
    assert f"batches         {STEPS // 4 - left} updates from samples of one level, {left} " in said


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--accumulate", 4], "there is none: give --proxies, too"),
        (["--proxies", "ladder"], "give --accumulate, too"),
        (
            ["--proxies", "ladder", "--accumulate", 4, "--policy-feedback"],
            "--policy-feedback decides with each sample",
        ),
        (["--proxies", "ladder", "--accumulate", 4, "--gate", 1], "--gate leaves out some"),
    ],
)
def test_samples_that_cannot_be_put_together_are_a_sentence(
    run: Run, model: Path, images: Path, proxies: Path, flags: list[object], sentence: str
) -> None:
    given = [proxies if flag == "ladder" else flag for flag in flags]
    simulated = ("simulate", model, *SCHEME, "--data", images, *FEW)
    assert sentence in run(*simulated, *given, "--batches", "level").sentence


@pytest.mark.slow
def test_without_a_ladder_nothing_is_said_of_levels(run: Run, model: Path, images: Path) -> None:
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW)
    facts = run(*flags, "--json").json
    assert facts["levels"] is None
    assert not any("levels" in epoch for epoch in facts["epochs"])
    assert "level" not in run(*flags).out
    assert "level" not in run("plan", model).out


@pytest.mark.slow
def test_a_plan_says_what_each_front_takes(run: Run, model: Path, proxies: Path) -> None:
    plain = run("plan", model, *SCHEME, "--json").json
    found = run("plan", model, *SCHEME, "--proxies", proxies, "--json").json
    assert plain["levels"] is None
    policy, fronts = found["levels"]["policy"], found["levels"]["fronts"]
    for name in ("macs", "instructions"):
        costs = [front[name] for front in fronts]
        assert costs == sorted(costs, reverse=True)
        assert 0 < policy[name] < costs[-1] / 50
    assert found["state_bytes"] == plain["state_bytes"] + 12
    more = found["constant_bytes"] - plain["constant_bytes"]
    assert more < sum(front["flash_bytes"] for front in (policy, *fronts[1:]))
    said = run("plan", model, *SCHEME, "--proxies", proxies).out
    assert "3     fronts that make" in said
    assert "policy" in said
    assert not found["levels"]["drifts"]
    drifting = ("plan", model, *SCHEME, "--proxies", proxies, "--policy-feedback")
    more = run(*drifting, "--json").json
    assert more["levels"]["drifts"]
    assert more["state_bytes"] == found["state_bytes"] + 8
    assert "corrected by what it taught" in run(*drifting).out


@pytest.mark.slow
def test_a_plan_draws_each_front_and_writes_its_buffers(
    run: Run, model: Path, proxies: Path, tmp_path: Path
) -> None:
    plan = prepare(model, ladders.SCHEME, ladder=kept_ladder(proxies)).plan
    assert plan.ladder is not None
    flags = (*SCHEME, "--proxies", proxies)
    said = run("plan", model, *flags, "--csv", "plan.csv", "--picture").out
    drawn = [f"step, level 0 its front\n{picture(plan.arena, notes=rows_kept(plan))}"]
    drawn += [
        f"{name}\n{picture(front.arena, notes=rows_kept(front))}"
        for name, front in plan.ladder.named.items()
    ]
    assert len(drawn) == 4
    assert said.endswith("\n" + "\n".join(drawn))
    assert (tmp_path / "plan.csv").read_text() == to_csv(plan.arena, plan.front_arenas)
    run("generate", model, *flags, "-o", "project")
    assert (tmp_path / "project/plan.csv").read_text() == (tmp_path / "plan.csv").read_text()
    records = planning.plan(model, ladders.SCHEME, proxies=proxies).records()
    assert list(dict.fromkeys(record["front"] for record in records)) == [
        "step", "policy", "level 1", "level 2",
    ]  # fmt: skip
    offsets = {r["buffer"]: r["offset"] for r in records if r["front"] == "level 2"}
    assert offsets == plan.front_arenas["level 2"].offsets


ONCE = ("--samples", 20, "--test-samples", 10, "--epochs", 2, "--lr", "0.03")


@pytest.mark.slow
@pytest.mark.parametrize("drift", drawn_by_commit([[], ["--policy-feedback"]], 1), ids=str)
def test_ways_with_a_ladder_are_compared_at_what_they_cost(
    run: Run,
    model: Path,
    images: Path,
    proxies: Path,
    monkeypatch: pytest.MonkeyPatch,
    drift: list[str],
) -> None:
    """Each row is what `simulate` and `plan` say; instructions are those of a step in the mean."""
    monkeypatch.setattr("mcutrain.functions.comparing.usual", lambda *_: [])
    given = ("--data", images, *ONCE, "--proxies", proxies, "--gate", 1, *drift)
    found = run("compare", model, *given, "--seeds", 1, "--jobs", 1, "--json").json["rows"]
    with_ladder = ("--proxies", proxies, *drift)
    name = "proxies, drift" if drift else "proxies"
    ways: dict[str, tuple[object, ...]] = {
        "fashion-sparse": (),
        "gate 1": ("--gate", 1),
        name: with_ladder,
        f"{name}, gate 1": (*with_ladder, "--gate", 1),
    }
    assert [row["name"] for row in found] == list(ways)
    costs = run("plan", model, *SCHEME, "--proxies", proxies, "--json").json["levels"]
    fronts = [front["instructions"] for front in costs["fronts"]]
    behind = instructions_behind(model, proxies)
    for row, flags in zip(found, ways.values(), strict=True):
        simulated = run("simulate", model, *SCHEME, "--data", images, *ONCE, *flags, "--json").json
        planned = run("plan", model, *SCHEME, *flags, "--json").json
        assert row["accuracies"] == [simulated["accuracy"]]
        assert row["sram_bytes"] == planned["sram_bytes"]
        skipped, levels = simulated["skipped"] or 0, simulated["levels"]
        assert row["learnt"] == (None if simulated["skipped"] is None else 1 - skipped / STEPS)
        assert row["levels"] == [count / STEPS for count in levels or ()]
        executed = fronts[0] * STEPS
        if levels is not None:
            pairs = zip(levels, fronts, strict=True)
            executed = costs["policy"]["instructions"] * STEPS
            executed += sum(count * front for count, front in pairs)
        executed += behind[0] * STEPS + behind[1] * (STEPS - skipped)
        assert row["instructions"] == pytest.approx(executed / STEPS, abs=1)
    plain, gate, ladder, both = (row["instructions"] for row in found)
    assert both < ladder < plain
    assert gate < plain
    flash = [row["flash_bytes"] for row in found]
    own = sum(front["flash_bytes"] for front in (costs["policy"], *costs["fronts"][1:]))
    assert [size - flash[0] for size in flash[2:]] == [own, flash[1] - flash[0] + own]


def instructions_behind(model: Path, proxies: Path) -> tuple[int, int]:
    """Of what a step does behind the latent: up to the loss, and then."""
    plan = prepare(model, ladders.SCHEME, ladder=kept_ladder(proxies)).plan
    assert plan.ladder is not None
    counts = estimate(plan.training, USUAL_ISA, plan.segments)
    each = [counts[node.name] for node in plan.nodes]
    loss = next(i for i, n in enumerate(plan.nodes) if plan.training.loss in n.outputs) + 1
    return sum(each[plan.ladder.position : loss]), sum(each[loss:])


@pytest.mark.slow
def test_a_comparison_shows_levels_and_what_was_learnt(
    run: Run, model: Path, images: Path, proxies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were asked for get the ladder; without a ladder there is no such column."""
    for module in ("experiments.planner", "functions.comparing"):
        monkeypatch.setattr(f"mcutrain.{module}.usual", lambda *_: [])
    flags = ("--data", images, *ONCE, "--seeds", 1, "--jobs", 1)
    said = run("compare", model, *flags, *SCHEME, "--proxies", proxies).out
    for name in ("gate 0.8", "proxies", "proxies, gate 0.8"):
        assert f"\n {name} " in said
    assert "levels, %" in said
    assert "learnt" in said
    plain = run("compare", model, *flags, *SCHEME).out
    assert "levels" not in plain
    assert "learnt" not in plain
    gated = run("compare", model, *flags, *SCHEME, "--gate", 1).out
    assert "learnt" in gated
    row = comparing.compare(
        model, images, [ladders.SCHEME], proxies=proxies, samples=20, test_samples=10, epochs=2,
        learning_rate=0.03, seeds=1, jobs=1,
    ).records()[2]  # fmt: skip
    assert (row["name"], len(row["levels"])) == ("proxies", 3)
    assert f"{row['instructions']:,}" in said


@pytest.mark.slow
@pytest.mark.parametrize("in_python", drawn_by_commit([True, False], 1))
def test_a_selected_scheme_gets_no_ladder_that_was_made_for_another(
    run: Run,
    model: Path,
    images: Path,
    proxies: Path,
    in_python: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody gave it. A scheme that somebody gave beside it gets the ladder alone."""
    for module in ("experiments.planner", "functions.comparing"):
        monkeypatch.setattr(f"mcutrain.{module}.usual", lambda *_: [])
    graph = load(model)
    names = tuple(layer.name for layer in layers_of(graph, find_head(graph)))
    gains = Gains((0.0, *(0.01 for _ in names)), {24: {1.0: 0.02}})
    head = {"accuracy": 0.7}
    Contributions("m", digest(graph), 10, "training", names, head, {"accuracy": gains}).write(
        "analysis.json"
    )
    found: list[list[str]] = []

    def no_training(lesson: Lesson, *_: object) -> None:
        found.append([lesson.schemes[i].name for i, w in lesson.ways.items() if w.making])
        raise ArgumentError("this is enough")

    monkeypatch.setattr("mcutrain.functions.comparing.train_all", no_training)
    plain = ("compare", model, "--data", images, *ONCE, "--seeds", 1, "--proxies", proxies)
    flags = (*plain, "--analysis", "analysis.json", "--sram", "60K")
    for schemes, expected in (([], ladders.SCHEME), (["22:0.25,bias:4"], "22:0.25,bias:4")):
        if in_python:
            with pytest.raises(ArgumentError, match="this is enough"):
                comparing.compare(
                    model, images, schemes, proxies=proxies, analysis="analysis.json", sram=60_000,
                    samples=20, test_samples=10, seeds=1,
                )  # fmt: skip
        else:
            assert run(*flags, *(["--scheme", *schemes] if schemes else [])).code == 2
        assert found.pop() == [expected] * 3


def test_a_ladder_that_cannot_be_compared_is_a_sentence(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    flags = ("compare", model, "--data", images, *ONCE, "--seeds", 1)
    assert "`mcutrain proxies` makes such" in run(*flags, "--proxies", "nowhere").sentence
    assert "there is no cascade" in run(*flags, "--policy-feedback").sentence
    assert "the gate's alpha is 17" in run(*flags, "--proxies", proxies, "--gate", 17).sentence
    full = run(*flags, "--proxies", proxies, "--scheme", "full").sentence
    assert full.startswith("proxies: the cascade ")
    assert "the first layer is trained" in full
    of_file = tmp_path / "of_file"
    shutil.copytree(proxies, of_file)
    facts = json.loads((of_file / LADDER_FILE).read_text())
    for scheme, called in (("mine", ", 'mine', is known"), ("", " is known")):
        (of_file / LADDER_FILE).write_text(json.dumps({**facts, "scheme": scheme}))
        sentence = run(*flags, "--proxies", of_file).sentence
        assert f"was made for{called}" in sentence
        assert "give that, too (--scheme)" in sentence


@pytest.mark.slow
@pytest.mark.parametrize("drifts", [False, True], ids=["policy", "drift"])
def test_a_project_keeps_its_levels_and_its_state_is_exported(
    run: Run, model: Path, proxies: Path, drifts: bool
) -> None:
    generate = ("generate", model, *SCHEME, "--proxies", proxies, "-o", "project")
    assert run(*generate, *(["--policy-feedback"] if drifts else [])).code == 0
    manifest = Manifest.read(Path("project/manifest.json"))
    step = prepare(model, ladders.SCHEME, ladder=kept_ladder(proxies), drift=drifts)
    assert manifest.levels is not None
    assert manifest.table == step.plan.state.table
    assert manifest.model_hash == step.project.model_hash
    assert all(front.instructions and front.flash_bytes for front in manifest.levels.fronts)
    reference = step.reference()
    reference.level_samples = [5, 6, 7]
    if drifts:
        reference.words[LEVEL_DRIFT][:] = 1, -6
    saved = reference.save()
    wanted = {"levels": (5, 6, 7), **({"drift": -1.5} if drifts else {})}
    assert FACTS.read(saved, manifest.table) == wanted
    Path("project/trained.mcts").write_bytes(saved)
    assert run("export", model, "--state", "project", "-o", "trained.tflite").code == 0


@pytest.mark.parametrize("command", ["plan", "simulate", "generate"])
def test_a_ladder_that_does_not_fit_is_a_sentence(
    run: Run, model: Path, images: Path, proxies: Path, command: str
) -> None:
    more = {"plan": [], "generate": ["-o", "project"]}.get(command, ["--data", images])
    changed = Path("changed")
    shutil.copytree(proxies, changed)
    facts = json.loads((changed / LADDER_FILE).read_text())
    (changed / LADDER_FILE).write_text(json.dumps({**facts, "front": "another"}))
    other = run(command, model, *more, *SCHEME, "--proxies", changed)
    assert "was made for another front" in other.sentence
    full = run(command, model, *more, "--scheme", "full", "--proxies", proxies)
    assert "makes latents, and no training step can begin behind the input" in full.sentence
    none = run(command, model, *more, *SCHEME, "--proxies", "nowhere")
    assert "`mcutrain proxies` makes such a folder" in none.sentence
    assert not Path("project").exists()


@pytest.mark.slow
def test_what_goes_with_no_ladder_is_a_sentence(
    run: Run, model: Path, images: Path, proxies: Path
) -> None:
    ladder = (*SCHEME, "--proxies", proxies)
    simulated = ("simulate", model, "--data", images, *FEW, *ladder)
    assert "or --policy-feedback" in run(*simulated, "--replay", 1, "--policy-feedback").sentence
    level = ("--replay", 1, "--accumulate", 4, "--batches", "level")
    assert "what is replayed comes between them" in run(*simulated, *level).sentence
    assert "leave out the latent" in run(*simulated, "--latent", "conv").sentence
    assert "leave out the latent" in run(*simulated, "--latent", "conv", "--reference").sentence
    assert "there is no cascade" in run("plan", model, *SCHEME, "--policy-feedback").sentence
    tail = ("generate", model, *ladder, "--part", "tail", "-o", "project")
    assert "a tail takes latents for samples" in run(*tail).sentence
    latent = run("generate", model, *ladder, "--latent", "conv", "-o", "project")
    assert "the fronts of the cascade make" in latent.sentence


def test_a_board_with_too_little_memory_is_a_sentence(
    run: Run, model: Path, proxies: Path, tmp_path: Path
) -> None:
    plan = ("plan", model, *SCHEME, "--proxies", proxies)
    assert "more than the 1,000 there are" in run(*plan, "--sram", 1000).sentence


REPLAYED = ("--replay", 1, "--remember", 8)


@pytest.mark.slow
def test_what_is_replayed_counts_for_no_front(
    run: Run, model: Path, images: Path, proxies: Path
) -> None:
    flags = ("simulate", model, *SCHEME, "--data", images, *FEW, "--proxies", proxies)
    plain = run(*flags, "--json").json
    ways = ([], ["--reference"], ["--checkpoint", "run.npz"], ["--checkpoint", "run.npz"])
    found = [run(*flags, *REPLAYED, *way, "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    assert found[0]["steps"] == 2 * STEPS
    assert found[0]["levels"] == plain["levels"]


@pytest.mark.slow
def test_a_board_replays_what_its_fronts_made(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    ladder = (*SCHEME, "--proxies", proxies)
    simulated = ("simulate", model, *ladder, "--data", images, *FEW, *REPLAYED)
    expected = run(*simulated, "--save-state", "state", "--json").json
    folder = tmp_path / "project"
    done("generate", model, *ladder, "--board", "native", *REPLAYED[2:], "-o", folder)
    done("build", folder, "-O", "1")
    board = Board(folder, tmp_path)
    try:
        flags = ("train", folder, "--data", images, "--port", board.url, *FEW, *REPLAYED[:2])
        facts = run(*flags, "--json").json
    finally:
        board.cut_power()
    assert facts["levels"] == expected["levels"]
    assert (folder / "trained.mcts").read_bytes() == (tmp_path / "state").read_bytes()


@pytest.mark.slow
def test_a_board_takes_the_fronts_that_the_simulation_takes(
    run: Run, model: Path, images: Path, proxies: Path, tmp_path: Path
) -> None:
    ladder = (*SCHEME, "--proxies", proxies, "--gate", 1, "--policy-feedback")
    simulated = ("simulate", model, *ladder, "--data", images, *FEW, "--save-state", "state")
    expected = run(*simulated, "--json").json
    folder = tmp_path / "project"
    done("generate", model, *ladder, "--board", "native", "-o", folder)
    done("build", folder, "-O", "1")
    board = Board(folder, tmp_path)
    try:
        flags = ("train", folder, "--data", images, "--port", board.url, *FEW)
        facts = run(*flags, "--json").json
        said = run(*flags)
    finally:
        board.cut_power()
    assert (facts["levels"], facts["drift"]) == (expected["levels"], expected["drift"])
    assert (folder / "trained.mcts").read_bytes() == (tmp_path / "state").read_bytes()
    assert "levels          " in said.out
    assert "drift           " in said.out
    pulled = events(folder, "pulled")[-1]
    assert (pulled["levels"], pulled["drift"]) == (facts["levels"], facts["drift"])
