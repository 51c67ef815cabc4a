"""mcutrain simulate: train on the host in the very C that a chip would run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain_host.dataclass import dataclass

from mcutrain.cli import shared_flags
from mcutrain.cli.automatic import Used, used
from mcutrain.cli.episodes import episodes_facts, print_episodes
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import percent, say, show_json, show_prose
from mcutrain.cli.training import (
    batch_line,
    class_lines,
    score_lines,
    selection_lines,
)
from mcutrain.functions.files import check_writable
from mcutrain.functions.options import HeadStart, MemoryOptions, Seed, SimulatedRequest
from mcutrain.functions.run_options import (
    BackendOptions,
    DataOptions,
    EpisodeOptions,
    KeptOptions,
    ShareOptions,
    SimulationOptions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcutrain.functions.episodes import FewShot
    from mcutrain.functions.simulating import Learnt
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.result import SimulationResult
    from mcutrain.simulation import Run


@dataclass(frozen=True)
class _Told:
    """A run, and what is said of it. used: of the memory. warning: what is doubtful, or nothing."""

    learnt: Learnt
    used: Used
    warning: str

    @staticmethod
    def of(learnt: Learnt) -> _Told:
        """Look at a run that is over."""
        takes = used(learnt.choosing, learnt.asked, learnt.step, learnt.choice)
        return _Told(learnt, takes, "; ".join(learnt.doubts))


def simulate(
    model: shared_flags.Model,
    data: shared_flags.Data,
    scheme: shared_flags.AutoScheme = None,
    classes: shared_flags.AutoClasses = shared_flags.AUTO,
    *,
    hardware: MemoryOptions,
    request: SimulatedRequest,
    training: SimulationOptions,
    share: ShareOptions,
    few_shot: EpisodeOptions,
    seed: Seed = 0,
    reading: DataOptions,
    head_start: HeadStart = "zeros",
    kept: KeptOptions,
    backend: BackendOptions,
    json: shared_flags.Json = False,
) -> None:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    Example: `mcutrain simulate model.tflite --data images/ --scheme last:6 --checkpoint run.npz`

    Example: `mcutrain simulate model.tflite --data images/ --epochs 50 --test-every 5 --tensorboard
    runs/a`
    """
    from mcutrain.functions.episodes import FewShot
    from mcutrain.functions.simulating import Simulation

    wanted = shared_flags.as_classes(classes)
    episodes = few_shot.of(wanted, reading.class_names)
    for path in (kept.save_state, kept.checkpoint, kept.log, kept.save_model):
        if path is not None:
            check_writable(Path(path))
    simulation = Simulation(
        request, training, share, hardware, reading, kept, backend, head_start, seed
    )
    learnt = simulation.run(model, data, scheme, wanted, episodes, OnScreen(json))
    told = [_Told.of(one) for one in learnt]
    if episodes is None:
        _tell(told[0], as_json=json)
    else:
        _tell_all(FewShot(episodes, learnt), told, as_json=json)


def _tell(told: _Told, *, as_json: bool) -> None:
    """What a run did."""
    if as_json:
        show_json(_facts(told))
        return
    if told.warning:
        say(f"mcutrain: {told.warning}")
    _print(told.learnt.step, told.learnt.run, told.learnt.result)
    for line in told.used.lines():
        show_prose(line)


def _tell_all(found: FewShot, told: list[_Told], *, as_json: bool) -> None:
    """What episodes did."""
    if as_json:
        show_json(episodes_facts(found, [_facts(one) for one in told]))
        return
    for warning in dict.fromkeys(one.warning for one in told if one.warning):
        say(f"mcutrain: {warning}")
    print_episodes(found)
    show_prose(_memory_line(found.results[0]))
    for line in told[0].used.lines():
        show_prose(line)


def _facts(told: _Told) -> dict[str, Any]:
    learnt = told.learnt
    warning = "; ".join(filter(None, (learnt.result.order_doubt, told.warning)))
    return {
        **facts(learnt.step, learnt.run, learnt.result),
        "memory": told.used.to_dict(),
        "reason": None if learnt.choice is None else learnt.choice.reason,
        "warning": warning or None,
    }


def facts(step: TrainingStep, run: Run, result: SimulationResult) -> dict[str, Any]:
    """Return what a run did, for --json."""
    import hashlib

    from mcutrain.features import FACTS

    return {
        "model": step.graph.name,
        "scheme": step.scheme.name,
        "classes": step.plan.training.classes,
        "class_names": list(run.samples.split.names),
        "training_samples": run.course.new_samples,
        "test_samples": len(run.samples.split.test),
        "settings": asdict(run.settings),
        **_scores(step, result),
        "steps": result.steps,
        "step_us": result.step_us,
        "latent": result.latent or None,
        **FACTS.of(result),
        "mixed_batches": result.mixed_batches,
        "selections": _selections(step, result),
        "arena_bytes": result.arena_bytes,
        "state_bytes": result.state_bytes,
        "sram_bytes": result.sram_bytes,
        "saturated_biases": result.saturated_biases,
        "output_exponent": result.output_exponent,
        "state_sha256": hashlib.sha256(result.saved).hexdigest(),
    }


def _selections(step: TrainingStep, result: SimulationResult) -> list[dict[str, Any]] | None:
    """Return what was trained from which step on, by name; None if everything was, always."""
    from mcutrain.runs.log import decision_facts

    tensors = step.plan.training.elastic
    if not tensors:
        return None
    return [decision_facts(decision, tensors) for decision in result.decisions]


def _scores(step: TrainingStep, result: SimulationResult) -> dict[str, Any]:
    """Before, after, and of every epoch: what there is of accuracy, loss and AUC."""
    epochs = [_known(asdict(epoch)) for epoch in result.epochs]
    if step.plan.training.has_labels and not step.plan.training.takes_targets:
        scores: dict[str, Any] = {"accuracy_before": result.before, "accuracy": result.accuracy}
        if step.plan.training.positions and step.plan.training.threshold is not None:
            scores |= {"f1_before": result.f1_before, "f1": result.f1}
            scores |= {"auc_before": result.auc_before, "auc": result.auc}
            scores |= {"class_f1": list(result.class_f1), "class_auc": list(result.class_auc)}
        elif step.plan.training.positions:
            scores |= {"iou_before": result.iou_before, "iou": result.iou}
            scores["class_iou"] = list(result.class_iou)
        else:
            scores |= {"f1_before": result.f1_before, "f1": result.f1}
            scores["class_f1"] = list(result.class_f1)
            if result.auc is not None:
                scores |= {"auc_before": result.auc_before, "auc": result.auc}
        return {**scores, "epochs": epochs}
    for epoch in epochs:
        del epoch["train_accuracy"]
        epoch.pop("test_accuracy", None)  # NaN, or not there where there was no test
    return {
        "loss_before": result.loss_before,
        "loss": result.loss,
        **_known({n: getattr(result, n) for n in ("mae_before", "mae", "r2_before", "r2")}),
        "auc_before": result.auc_before,
        "auc": result.auc,
        **_of_outputs(result),
        "epochs": epochs,
    }


def _of_outputs(result: SimulationResult) -> dict[str, Any]:
    """Measures of several outputs, by output and measure."""
    pairs = {"outputs_before": result.outputs_before, "outputs": result.outputs}
    found: dict[str, Any] = {name: {} for name, scores in pairs.items() if scores}
    for name in found:
        for score in pairs[name]:
            found[name].setdefault(score.output, {})[score.measure] = score.value
    return found


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are known."""
    return {name: value for name, value in values.items() if value is not None}


def _memory_line(result: SimulationResult) -> str:
    return (
        f"SRAM            {result.sram_bytes:,} bytes: arena {result.arena_bytes:,}, "
        f"trainable state {result.state_bytes:,}"
    )


def _feature_lines(step: TrainingStep, result: SimulationResult) -> Iterator[str]:
    """Return what features of the step did, if it has some."""
    from mcutrain.features import FACTS

    yield from FACTS.lines(FACTS.of(result), result.steps)
    if result.mixed_batches is not None:
        yield batch_line(result.mixed_batches, result.steps // step.plan.training.accumulate)


def _print_time(result: SimulationResult) -> None:
    show_prose(f"time per step   {result.step_us:,.0f} µs on this machine, {result.steps:,} steps")
    if result.latent:
        show_prose(
            f"{'':16}without the frozen layers up to {result.latent}, which ran beforehand, once "
            "for each sample"
        )


def _result_lines(run: Run, result: SimulationResult) -> Iterator[str]:
    """Return what the test samples say before and after, by the kind of labels."""
    if run.judged is not None:
        before = {"accuracy": result.before, "f1": result.f1_before, "auc": result.auc_before}
        of_each = {"class_f1": result.class_f1, "class_auc": result.class_auc}
        after = {"accuracy": result.accuracy, "f1": result.f1, "auc": result.auc, **of_each}
        yield from score_lines(before, after)
    elif run.samples.split.positions:
        before = {"accuracy": result.before, "iou": result.iou_before}
        shares = {"iou": result.iou, "class_iou": result.class_iou}
        yield from score_lines(before, {"accuracy": result.accuracy, **shares})
    elif run.learns_classes:
        yield f"test accuracy   {percent(result.before)} before, {percent(result.accuracy)} after"
        before = {"f1": result.f1_before, "auc": result.auc_before}
        yield from class_lines(before, {"f1": result.f1, "auc": result.auc})
    else:
        losses: dict[str, Any] = {"loss": result.loss_before, "auc": result.auc_before}
        losses |= {"mae": result.mae_before, "r2": result.r2_before}
        learnt = {"loss": result.loss, "auc": result.auc, "mae": result.mae, "r2": result.r2}
        for known, scores in ((losses, result.outputs_before), (learnt, result.outputs)):
            known.update({f"{one.output} {one.measure}": one.value for one in scores})
        yield from score_lines(_known(losses), _known(learnt))


def _print(step: TrainingStep, run: Run, result: SimulationResult) -> None:
    for line in _result_lines(run, result):
        show_prose(line)
    show_prose(_memory_line(result))
    if result.steps:
        _print_time(result)
    for line in _feature_lines(step, result):
        show_prose(line)
    for line in selection_lines(result.decisions, step.plan.training.elastic):
        show_prose(line)
