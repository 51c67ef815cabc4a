"""What a training step takes, node by node and tensor by tensor."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from mcutrain_host.client import Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject

from mcutrain.arguments import Count, PathLike, checked
from mcutrain.cost.counting import count_instructions
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.profile import NANOSECONDS, StepProfile, profile_of, profile_step, timing_of
from mcutrain.cost.timing import time_here, time_on_board, timing_of_project
from mcutrain.errors import OptionError, TargetError
from mcutrain.functions.board_line import find_baud, find_port
from mcutrain.functions.board_options import LineOptions
from mcutrain.functions.chosen import planned_step
from mcutrain.functions.keywords import given_of, with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.options import MeasureOptions, ProfiledRequest
from mcutrain.functions.preparing import HEAD, Asked, Scheme
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.shown import Record, Shown
from mcutrain.simulation import check_can_build
from mcutrain.target import Target, load_target


@dataclass(frozen=True, repr=False)
class Profiled(Shown):
    """What each node and each trained tensor of a step takes. board: whose instructions."""

    model: str
    scheme: str
    profile: StepProfile
    board: str | None = None

    def summary(self) -> str:
        """Return a line that describes it."""
        found = self.profile
        whole = sum(found.time(part) for part in ("forward", "backward", "update"))
        return f"{self.model}, scheme {self.scheme}: {whole:,} {found.unit} of a step"

    def records(self) -> list[Record]:
        """Every node."""
        return [asdict(node) for node in self.profile.nodes]

    def to_dict(self) -> Record:
        """Return it as `mcutrain profile --json` prints it, without the file's name."""
        measured = self.profile
        return {
            "board": self.board,
            "model": self.model,
            "scheme": self.scheme,
            "isa": measured.isa,
            "unit": measured.unit,
            "forward": measured.time("forward"),
            "backward": measured.time("backward"),
            "update": measured.time("update"),
            "model_error": measured.error,
            "per_instruction": measured.per_instruction,
            "misplaced": measured.misplaced,
            "nodes": [asdict(node) for node in measured.nodes],
            "tensors": [asdict(tensor) for tensor in measured.tensors],
        }


@with_keywords
@checked
def profile(
    model: Graph | PathLike,
    scheme: Scheme = HEAD,
    *,
    classes: Count | None = None,
    request: ProfiledRequest = ProfiledRequest(),
    measure: MeasureOptions = MeasureOptions(),
    line: LineOptions = LineOptions(),
    listener: Listener = SILENT,
) -> Profiled:
    """Say what each node and each trained tensor of a step takes.

    Instructions by the instruction model of the board, or of a Cortex-M4 or M7. Any tensor of the
    step can be left out, as with elastic. Of a project in cycles of its board, which trains on
    noise meanwhile: it restarts at the end with the state that it had saved.

    model, scheme, classes, request: as `plan` takes them; or model is the folder of a project that
        `generate` wrote with a board and timed=True, which says all else itself.
    line: port and baud of the project's board, keywords, too.
    measure: board is the microcontroller; count runs the step on its emulator, too, and counts;
        here runs it on this computer and takes the nanoseconds of each node instead.
    listener: hears notes and progress; by default notes are Python warnings.

    Raises ModelError, SchemeError, TargetError for a board without an instruction model,
    BuildError, ArgumentError.

    >>> profile("model.int8.tflite", "last:3", board="nucleo-f446re").to_pandas()
    """
    if not isinstance(model, Graph) and Path(model).is_dir():
        if said := given_of(measure):
            raise OptionError(said[0], "is of a model; DIR says what it was generated for")
        return _of_project(BoardProject.read(Path(model)), line, listener)
    if said := given_of(line):
        raise OptionError(said[0], "is of a project: give its DIR for MODEL")
    target = _target(measure)
    if measure.here:
        check_can_build()  # fail before the model is planned
    graph = loaded(model, listener)
    asked = Asked.of(request, scheme, elastic=True)
    step = planned_step(asked, graph, classes, listener)
    found = _measured(step, measure, target, listener)
    name = None if target is None else target.name
    return Profiled(step.graph.name, step.scheme.name, found, name)


def _of_project(project: BoardProject, line: LineOptions, listener: Listener) -> Profiled:
    """Profile a project by its board's own clock."""
    timing = timing_of_project(project)
    port, baud = find_port(project, line.port, listener.detail), find_baud(project, line.baud)
    with SerialLink(port, baud) as link, listener.counting("connecting") as report:
        times, unit = time_on_board(Device(link), project, report)
    found = profile_of(timing, times, unit)
    return Profiled(project.manifest.model, project.manifest.scheme, found, project.board.name)


def _target(measure: MeasureOptions) -> Target | None:
    """Return the board. Raises ArgumentError for options that do not go together, TargetError."""
    if measure.count and measure.board is None:
        raise OptionError("count", "runs on a board: give --board, too")
    if measure.here and measure.board is not None:
        raise OptionError("here", "runs on this computer: leave out --board")
    given = measure.board
    target = given if given is None or isinstance(given, Target) else load_target(os.fspath(given))
    if target is not None and measure.count:
        target.check_firmware()
    if target is not None and target.isa == "host":
        raise TargetError(
            f"{target.name} has no instruction model; name a microcontroller, such as nucleo-f446re"
        )
    return target


def _measured(
    step: TrainingStep, measure: MeasureOptions, target: Target | None, listener: Listener
) -> StepProfile:
    if measure.here:
        with listener.counting("compiling for this computer") as report:
            times = dict(time_here(step, report=report))
        return profile_of(timing_of(step.plan, "host"), times, NANOSECONDS)
    counted = None
    if measure.count and target is not None:
        with listener.counting("compiling for the board") as report:
            counted = dict(count_instructions(step, target, report=report))
    return profile_step(step.plan, USUAL_ISA if target is None else target.costs, counted)
