"""mcutrain latents: samples as what the front of a network makes of them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli import samples as inputs
from mcutrain.cli.output import count_bar, replace_file, say, show, show_json
from mcutrain.functions.files import check_writable

if TYPE_CHECKING:
    from mcutrain_host.manifest import Manifest

    from mcutrain.data import Split
    from mcutrain.simulation import LatentSimulator

PARTS = ("train", "test", "val")


def latents(
    project: Annotated[
        Path,
        typer.Argument(
            metavar="PROJECT",
            help="A folder that `mcutrain generate --part tail` wrote.",
            show_default=False,
        ),
    ],
    model: options.Model,
    data: inputs.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .npz file to write, a data set for `mcutrain train`.",
            show_default=False,
        ),
    ],
    *,
    seed: options.Seed = 0,
    reading: inputs.SourceFlags,
    json: options.Json = False,
) -> None:
    """Write the latents of a data set: what a project's tail takes for samples.

    MODEL is the file that the project was generated from; its front runs on this computer, with the
    bits that it has on a chip.

    Example: `mcutrain latents project model.tflite --data images/ -o latents.npz`
    """
    from mcutrain_host.manifest import Manifest

    from mcutrain.runs.fronts import front_of_tail

    if output.suffix != ".npz":
        raise typer.BadParameter(f"{output} must end with .npz", param_hint="--output")
    check_writable(output)
    manifest = Manifest.of_folder(project, "--part tail")
    front = front_of_tail(manifest, model, project)
    x = front.plan.training.input_type
    found = _latents(front, reading.of(data, seed), manifest)
    replace_file(output, _npz(found))
    facts = {
        "file": str(output),
        "bytes": output.stat().st_size,
        "latent": manifest.begins_with,
        "bytes_per_sample": front.latent.size_bytes,
        "bytes_per_sample_before": x.size_bytes,
        "samples": len(found.train),
        "test_samples": len(found.test),
    }
    if json:
        show_json(facts)
        return
    show(
        f"{output}: {len(found.train):,} training and {len(found.test):,} test latents, "
        f"{manifest.begins_with}, {front.latent.size_bytes:,} bytes each in the place of "
        f"{x.size_bytes:,}"
    )


def _latents(front: LatentSimulator, source: inputs.DataSource, manifest: Manifest) -> Split:
    """What the front makes of a data set, with labels that are numbers of the tail's outputs."""
    from mcutrain.data import ModelInput, Outputs
    from mcutrain.runs.fronts import latents_of
    from mcutrain.runs.samples import prepare_samples
    from mcutrain.simulation import RunSettings

    x, order = front.plan.training.input_type, front.plan.training.forward.input_order
    recipe = manifest.recipe or {}
    added, is_new = tuple(recipe.get("added", ())), recipe.get("classes") is not None
    names = manifest.class_names, source.class_names
    outputs = Outputs.of(manifest.classes, *names, added, is_new)
    source = replace(source, is_partial=bool(outputs.names or added))
    split = source.read_labelled(ModelInput(x.shape[1:], x.scale, x.zero_point, order))
    if manifest.has_labels:
        if guess := outputs.guess(split):
            say(f"mcutrain: note: {guess}")
        split = outputs.labelled(split)
    prepared = prepare_samples(
        split,
        RunSettings(),
        input_shape=x.shape[1:],
        scale=x.scale,
        zero_point=x.zero_point,
        classes=None,
        normalization=source.normalization,
    )
    with count_bar() as bar:
        task = bar.add_task("computing latents")
        return latents_of(
            prepared, front, lambda done, of: bar.update(task, completed=done, total=of)
        )


def _npz(split: Split) -> bytes:
    """A data set that says itself what is for the test."""
    import numpy as np

    arrays: dict[str, Any] = {"names": np.array(split.names)}
    for name, part in zip(PARTS, (split.train, split.test, split.validation), strict=True):
        if part is not None:
            arrays |= {f"x_{name}": part.x, f"y_{name}": part.y}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
