"""mcutrain demo: a small network learns on the host as it would on the chip."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from mcutrain_host.dataclass import dataclass

from mcutrain.cli.output import count_bar, err, percent, show, show_json, show_table
from mcutrain.cli.shared_flags import Json, Seed, option, written
from mcutrain.cli.training import counting, watching
from mcutrain.functions.files import check_writable_folder, writing

if TYPE_CHECKING:
    from mcutrain_host.memory import Memory
    from mcutrain_host.packages import Package

    from mcutrain.demo import Size
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.result import SimulationResult
    from mcutrain.simulation import Run


def demo(
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few images only: shows that it works, learns little.")
    ] = False,
    output: Annotated[
        Path | None,
        written(
            "DIR", "Write the generated C there, a folder per scheme; otherwise into the cache."
        ),
    ] = None,
    files: Annotated[
        Path | None,
        option(
            "Only write the demo's network and images there, for trials of your own.", metavar="DIR"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train a small network for a new sensor, on this computer and on a virtual board.

    Example: `mcutrain demo`
    """
    from mcutrain_host.cache import cache_folder

    from mcutrain import demo as content
    from mcutrain.demo import board
    from mcutrain.demo.report import write_report
    from mcutrain.report.collect import curve_of
    from mcutrain.simulation import check_can_build

    if files is not None:
        _copy(files)
        return
    size = content.QUICK if quick else content.Size()
    folder = output or cache_folder() / "demo"
    check_writable_folder(folder)
    check_can_build()  # a sentence before work begins
    lacking = board.missing()
    story = _Story(json)
    story.begin()
    story.left_out(lacking)
    images = content.upright(size)
    graph = content.network()
    sensor = content.deployed(images)
    upright = _accuracy_upright(graph, images, size, seed)
    results: list[_Trained] = []
    for scheme in content.SCHEMES:
        step = content.training_step(graph, scheme)
        run = _begun(step, sensor, size, seed, folder / scheme)
        if not results:
            story.before(upright, run.evaluate(), run)
        results.append(_Trained(step, run, _train(step, run)))
    last = results[-1]
    equal = _same_bits(last, size, json)
    facts = _facts(upright, results, size, equal, folder)
    story.middle(facts)
    on_board, memory = None, None
    if not lacking:
        story.on_board()
        on_board, memory = _on_board(last.step, sensor, quick, seed, folder, json)
    curves = [curve_of(t.step.scheme.name, t.result, seed) for t in results]
    report = write_report(last.step, curves, on_board, memory, folder)
    story.end({**facts, "board": on_board, "report": report})
    if not (equal and (on_board is None or on_board["same_bits"])):
        raise typer.Exit(1)


def _copy(folder: Path) -> None:
    """The demo's own files, and where they are."""
    from mcutrain import demo as content

    with writing(folder):
        for path in content.copy_files(folder):
            show(str(path))


def _begun(step: TrainingStep, sensor: Any, size: Size, seed: int, folder: Path) -> Run:
    """A run of the step's C, which is written into the folder."""
    from mcutrain import demo as content

    with writing(folder):
        step.project.write(folder)
    with err.status(f"{step.scheme.name}: compiling the generated C"):
        return content.training_run(step, sensor, size, seed)


def _same_bits(trained: _Trained, size: Size, is_quiet: bool) -> bool:
    """Return whether numpy computes the same first steps."""
    from mcutrain import demo as content

    count = size.reference_steps
    with count_bar(is_quiet) as bar:
        task = bar.add_task("numpy repeats the first steps", total=count)
        return content.same_bits(
            trained.step, trained.run, count, lambda n: bar.update(task, completed=n)
        )


def _on_board(
    step: TrainingStep, sensor: Any, quick: bool, seed: int, folder: Path, json: bool
) -> tuple[dict[str, Any], Memory]:
    """Train on a virtual board. Returns what happened, and the memory of the ELF file."""
    from mcutrain.demo import board

    size = board.QUICK if quick else board.BoardSize()
    with counting(board.BOARD, json) as tell, writing(folder / board.BOARD):
        done = board.train(step, sensor, size, seed, folder / board.BOARD, tell)
    outcome = done.outcome
    facts = {
        "name": board.BOARD,
        "planned_bytes": done.memory.planned_bytes,
        "linked_bytes": done.memory.linked_bytes,
        "chip_bytes": done.memory.sram_bytes,
        "stack_bytes": outcome.identity.stack_bytes,
        "stack_used_bytes": outcome.statistics.stack_used_bytes,
        "flash_bytes": done.memory.flash_bytes,
        "flashed": done.flashed,
        "steps": outcome.position,
        "test_samples": size.test,
        "accuracy_before": outcome.before,
        "accuracy": outcome.accuracy,
        "instructions_per_step": round(outcome.train_cycles),
        "power_cut_after": size.power_cut,
        "went_on_from": done.went_on_from,
        "state_bytes": done.state_bytes,
        "same_bits": done.equal,
    }
    return facts, done.memory


@dataclass(frozen=True)
class _Trained:
    """A finished run."""

    step: TrainingStep
    run: Run
    result: SimulationResult


def _accuracy_upright(graph: Any, images: Any, size: Size, seed: int) -> float:
    from mcutrain import demo as content

    with err.status("compiling the generated C"):
        run = content.training_run(content.training_step(graph, "head"), images, size, seed)
    return run.evaluate()


def _train(step: TrainingStep, run: Run) -> SimulationResult:
    from mcutrain.runs.finishing import finish

    with watching(run, f"{step.scheme.name:14}") as watch:
        return finish(step, run, None, watch)


def _facts(
    upright: float, results: list[_Trained], size: Size, equal: bool, folder: Path
) -> dict[str, Any]:
    runs = [
        {
            "scheme": t.step.scheme.name,
            "accuracy_before": t.result.before,
            "accuracy": t.result.accuracy,
            "arena_bytes": t.result.arena_bytes,
            "state_bytes": t.result.state_bytes,
            "sram_bytes": t.result.sram_bytes,
            "steps": t.result.steps,
            "step_us": t.result.step_us,
        }
        for t in results
    ]
    return {
        "upright_accuracy": upright,
        "runs": runs,
        "reference_steps": size.reference_steps,
        "same_bits": equal,
        "state_bytes_compared": len(results[-1].result.saved),
        "folder": str(folder),
    }


class _Story:
    """What the demo says. With --json it says only the facts at the end."""

    def __init__(self, json: bool) -> None:
        self.json = json

    def begin(self) -> None:
        self._say(
            """\
A small int8 network tells clothes apart (Fashion-MNIST). In the device it was made for,
the sensor is mounted sideways and gets half of the light. So it has to learn again, there:
in kilobytes of memory, from one labelled image at a time.
"""
        )

    def left_out(self, lacking: Sequence[Package]) -> None:
        """What is not installed, and what the demo does without."""
        if not lacking:
            return
        from mcutrain_host.packages import install

        needs = ", ".join(f"{package.name} ({package.purpose})" for package in lacking)
        told = f"Left out: the virtual board, for want of {needs}. It comes with"
        self._say(textwrap.fill(told, 96))
        self._say(f"    {install(lacking)}\n")

    def before(self, upright: float, deployed: float, run: Run) -> None:
        train, test = run.samples.split.train, run.samples.split.test
        times = "once" if run.settings.epochs == 1 else f"{run.settings.epochs} times"
        self._say(
            f"""\
Accuracy on {len(test):,} test images before training:
    upright and bright, as it was trained     {percent(upright):>7}
    turned and dimmed, as the sensor sees     {percent(deployed):>7}

Training on {len(train):,} images of the sensor, {times}. This computer now runs the C that
a microcontroller would run, and computes the same bits, in integers.
"""
        )

    def middle(self, facts: dict[str, Any]) -> None:
        columns = ("trained", "before", "after", "arena", "state", "SRAM", "time per step")
        rows = [
            [
                run["scheme"],
                percent(run["accuracy_before"]),
                percent(run["accuracy"]),
                run["arena_bytes"],
                run["state_bytes"],
                run["sram_bytes"],
                f"{run['step_us']:,.0f} µs here",
            ]
            for run in facts["runs"]
        ]
        self._say("")
        if not self.json:
            show_table(columns, rows)
        self._say(
            f"""\
head: only the classifier learns. fashion-sparse: 16 biases too, and half of the input
channels of 5 convolutions. Bytes of SRAM: the arena holds activations and gradients, the
state is what training changes.

numpy repeated {facts["reference_steps"]} steps from the definition of each operator:
{_verdict(facts)}
"""
        )

    def on_board(self) -> None:
        self._say(
            """\
Now a virtual NUCLEO-F446RE: a Cortex-M4 with 128 KB of SRAM, in an emulator that executes the
chip's own program, with an empty flash and a serial port.
"""
        )

    def end(self, facts: dict[str, Any]) -> None:
        if self.json:
            show_json(facts)
            return
        if facts["board"] is not None:
            show()
            show(_board_facts(facts["board"]))
            show()
        files = Path(facts["folder"], facts["runs"][-1]["scheme"], "src")
        show(f"The C is in {facts['folder']}")
        show(f"    less {shlex.quote(str(files / 'mct_model.h'))}")
        show(f"    less {shlex.quote(str(files / 'mct_model.c'))}")
        if facts["board"] is not None:
            show(f"and the firmware in {Path(facts['folder'], facts['board']['name'])}")
        show(f"All of this as charts, to open in a browser: {facts['report']}")

    def _say(self, text: str) -> None:
        if not self.json:
            show(text)


def _board_facts(board: dict[str, Any]) -> str:
    return f"""\
{board["name"]}: {board["planned_bytes"]:,} bytes of SRAM planned, {board["linked_bytes"]:,} in \
the ELF file, stack included (of {board["stack_bytes"]:,}, {board["stack_used_bytes"]:,} \
were used).
It was flashed over its ROM's serial bootloader ({board["flash_bytes"]:,} bytes), and trained \
on {board["steps"]} images
that this computer sent: {board["instructions_per_step"]:,} instructions a step.
    accuracy on {board["test_samples"]} test images, on the board: \
{percent(board["accuracy_before"])} before, {percent(board["accuracy"])} after
    power cut after step {board["power_cut_after"]}: it restored what it had saved, and went on \
from step {board["went_on_from"]}
{_board_verdict(board)}"""


def _verdict(facts: dict[str, Any]) -> str:
    if not facts["same_bits"]:
        return "THE STATES DIFFER, which is a bug."
    return f"after each, all {facts['state_bytes_compared']:,} bytes of saved state equal the C's."


def _board_verdict(board: dict[str, Any]) -> str:
    if not board["same_bits"]:
        return "THE BOARD'S STATE AND THE SIMULATION'S DIFFER, which is a bug."
    return (
        f"The trained state, read back over serial, equals the simulation's: all "
        f"{board['state_bytes']:,} bytes."
    )
