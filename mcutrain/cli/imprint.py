"""mcutrain imprint: a board learns a class from a few samples, without training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import boards, options
from mcutrain.cli import samples as inputs
from mcutrain.cli.output import count_bar, say, show, show_json

if TYPE_CHECKING:
    from mcutrain_host.imprint import ImprintReport, NewClass
    from mcutrain_host.manifest import BoardProject

    from mcutrain.data import Dataset, Split


@dataclass(frozen=True)
class ClassFlags:
    """Flags of which class is learnt, beside which."""

    label: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The number of its output, from 0, where the outputs have no such name.",
            show_default=False,
        ),
    ] = None
    known: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="K",
            help="The classes 0 … K-1 are known already, but for this one. By default those before "
            "it, of a class that was added (--add-class), else all others.",
            show_default=False,
        ),
    ] = None

    def of(self, project: BoardProject, name: str) -> tuple[int, int]:
        """The number of the class's output, and how many are known. Raises DataError."""
        manifest = project.manifest
        added = tuple((manifest.recipe or {}).get("added", ()))
        own = manifest.classes - len(added)
        label = self.label
        if label is None:
            label = _number_of(name, manifest.class_names, added, own)
        known = self.known or (label if added and label >= own else own)
        _check(label, known, manifest.classes)
        return label, known


@dataclass(frozen=True)
class AfterFlags:
    """Flags of the training that follows."""

    replay: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="R",
            help="Then train R steps on samples that the board remembers (`generate --remember`).",
        ),
    ] = 0
    lr: Annotated[
        float,
        typer.Option(
            "--lr",
            parser=options.parse_number,
            metavar="RATE",
            help="Learning rate of these steps, per sample: a number or a fraction.",
        ),
    ] = "0.001"  # type: ignore[assignment]  # typer parses it


def imprint(
    folder: boards.Project,
    data: inputs.Data,
    name: Annotated[
        str,
        typer.Option(
            "--class",
            metavar="NAME",
            help="The class: of the data, and of the outputs if they have names.",
            show_default=False,
        ),
    ],
    *,
    which: ClassFlags,
    line: boards.LineFlags,
    after: AfterFlags,
    seed: options.Seed = 0,
    reading: inputs.SourceFlags,
    json: options.Json = False,
) -> None:
    """Teach a board a class from a few samples of it, without training it.

    All samples of the class that the data has are sent; what the other classes score stays as it
    is. The project was generated with --imprint, and with an output for the class: --add-class
    NAME, or more --classes than were trained.

    Example: `mcutrain imprint project --data hats/ --class hat --port /dev/ttyACM0`
    """
    from mcutrain_host import imprint as board
    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.ports import connect

    project = BoardProject.read(folder)
    _check_replays(project, after.replay)
    label, known = which.of(project, name)
    source = replace(reading.of(data, seed), is_partial=True)
    new = replace(_new_class(project, source, name, after), label=label, known=known)
    device = connect(*line.of(project))
    try:
        with count_bar(json) as bar:
            task = bar.add_task(f"samples of {name}")
            found = board.imprint(
                device,
                project.firmware,
                new,
                lambda done, of: bar.update(task, completed=done, total=of),
            )
    finally:
        device.close()
    if json:
        show_json(_facts(name, new, found))
    else:
        _tell(name, new, found)


def _number_of(name: str, names: tuple[str, ...], added: tuple[str, ...], own: int) -> int:
    """Return the number of the output with this name. Raises DataError."""
    from mcutrain.errors import DataError, did_you_mean

    if name in names:
        return names.index(name)
    if name in added:
        return own + added.index(name)
    known = (*names, *added)
    hint = f"the outputs are called {', '.join(known)}" if known else "the outputs have no names"
    raise DataError(
        f"no output is called {name!r}: {hint}{did_you_mean(name, known)}; give --label N, the "
        "number of the output"
    )


def _check(label: int, known: int, classes: int) -> None:
    """Raise DataError for a class that cannot be learnt so."""
    from mcutrain.errors import DataError
    from mcutrain.simulation.compiled import no_imprint

    if label >= classes or known > classes or (known == 1 and label == 0):
        raise DataError(no_imprint(1, label, known, classes))


def _check_replays(project: BoardProject, replays: int) -> None:
    """Raise ProjectError where nothing is remembered."""
    from mcutrain_host.errors import ProjectError

    if replays and not project.board.memory.remember:
        raise ProjectError(
            f"the firmware of {project.folder} remembers no samples to replay: generate it with "
            "--remember N"
        )


def _new_class(
    project: BoardProject, source: inputs.DataSource, name: str, after: AfterFlags
) -> NewClass:
    """The samples of a class as the board takes them. Its numbers are still to be said."""
    import numpy as np
    from mcutrain_host.imprint import NewClass
    from mcutrain_host.protocol import Rate

    from mcutrain.data import Split
    from mcutrain.functions.board_samples import input_of
    from mcutrain.runs.samples import check_latents, prepare_samples
    from mcutrain.simulation import RunSettings
    from mcutrain.simulation.rates import LearningRate

    asked, manifest = input_of(project), project.manifest
    part = _of_class(source.read(asked), name)
    split = Split(part, part)
    if manifest.begins_with:
        check_latents(split, RunSettings(), manifest.begins_with, asked.shape)
    prepared = prepare_samples(
        split,
        RunSettings(),
        input_shape=asked.shape,
        scale=asked.scale,
        zero_point=asked.zero_point,
        classes=None,
        normalization=source.normalization,
        note=lambda text: say(f"mcutrain: note: {text}"),
    )
    codes = prepared.train(np.arange(len(part)), 0, 0)
    rate = LearningRate.of(after.lr)
    own_rate = Rate(rate.mult_q31, rate.shift)
    return NewClass([x.tobytes() for x in codes], 0, 0, after.replay, own_rate)


def _of_class(split: Split, name: str) -> Dataset:
    """All samples of a class, for training and for the test alike. Raises DataError."""
    import numpy as np

    from mcutrain.errors import DataError, did_you_mean
    from mcutrain.quant.imprint import MOST_SAMPLES

    if not split.is_labelled or split.positions or name not in split.names:
        names = split.names if split.is_labelled else ()
        has = f"has the classes {', '.join(names)}" if names else "does not say what samples are of"
        raise DataError(
            f"the data {has}, and no {name!r}: give a folder with a folder {name} of samples, or "
            f"another --class{did_you_mean(name, names)}"
        )
    number = split.names.index(name)
    parts = [p for p in (split.train, split.test, split.validation) if p is not None]
    x = np.concatenate([p.x[p.y == number] for p in parts])
    if not 0 < len(x) <= MOST_SAMPLES:
        raise DataError(
            f"the data has {len(x):,} samples of {name!r}: give 1 to {MOST_SAMPLES:,}, such as by "
            "--samples"
        )
    return replace(split.train, x=x, y=np.zeros(len(x), np.int64), names=(name,))


def _facts(name: str, new: NewClass, found: ImprintReport) -> dict[str, Any]:
    """Return values for --json."""
    return {
        "class": name,
        "label": new.label,
        "known": new.known,
        "samples": len(new.samples),
        "replays": new.replays,
        **asdict(found),
    }


def _tell(name: str, new: NewClass, found: ImprintReport) -> None:
    """What the board did."""
    others = new.known - (1 if new.label < new.known else 0)
    show(
        f"{name}, output {new.label}, got its weights from {len(new.samples):,} samples, beside "
        f"{others:,} classes that were known."
    )
    if found.row_cycles:
        show(f"{found.sample_cycles:,} cycles a sample, {found.row_cycles:,} for the weights.")
    if new.replays:
        show(f"Then it learnt from {new.replays:,} samples that it remembers.")
    if found.save_number:
        show(f"The board has saved it (save {found.save_number}).")
    else:
        show("The board has no slots to save into: without power it forgets the class.")
