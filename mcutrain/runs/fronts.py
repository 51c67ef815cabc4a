"""The front of a network for a project that holds only its tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from mcutrain_host.manifest import Manifest

from mcutrain import pipeline
from mcutrain.codegen.program import Program
from mcutrain.data import Dataset, Split
from mcutrain.errors import McutrainError
from mcutrain.memplan import find_latent
from mcutrain.pipeline.recipe import of_dict
from mcutrain.simulation import LatentSimulator, Samples
from mcutrain.trained import model_of, step_of

CHUNK = 64


def front_of_tail(manifest: Manifest, model: Path, where: Path) -> LatentSimulator:
    """Return what computes the latents of samples that the project at `where` takes.

    model: the file that it was generated from. Raises McutrainError where the project is no tail,
    or of another model.
    """
    if not manifest.begins_with:
        raise McutrainError(
            f"{where} takes samples, not latents: it holds the whole network, and needs no model "
            "beside it"
        )
    if manifest.recipe is None:
        raise McutrainError(f"{where} does not say how it was made: generate it anew")
    recipe = of_dict(manifest.recipe, str(where))
    graph = model_of(pipeline.load(model), recipe, str(where))
    tail = step_of(graph, recipe)
    if Program(tail.plan).model_hash != manifest.model_hash:
        raise McutrainError(
            f"{where} is no tail of {model}: give the file that it was generated from, and the "
            "version of mcutrain that did it"
        )
    whole = step_of(graph, replace(recipe, options=replace(recipe.options, part="whole")))
    return whole.latent_simulator(find_latent(whole.plan, recipe.options.latent))


def latents_of(
    samples: Samples,
    front: LatentSimulator,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Split:
    """Return the data with latents for samples, int8. progress: gets samples done, and all."""
    parts = samples.split
    total = sum(len(part) for part in (parts.train, parts.test, parts.validation or ()))
    done = 0

    def computed(part: Dataset) -> Dataset:
        nonlocal done
        found = []
        for first in range(0, len(part), CHUNK):
            codes = samples.quantized(part.x[first : first + CHUNK])
            found.append(front.front(codes))
            done += len(codes)
            progress(done, total)
        return replace(part, x=np.concatenate(found))

    return parts.each(computed)
