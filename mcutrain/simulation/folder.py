"""A project that was generated for a board, compiled for this machine: the same bits."""

from __future__ import annotations

import math
from pathlib import Path

from mcutrain_host.manifest import Manifest

from mcutrain.codegen import Project, portable_files
from mcutrain.errors import BuildError
from mcutrain.simulation.build import build_library
from mcutrain.simulation.compiled import LibrarySimulator, Sizes
from mcutrain.simulation.latent import LatentSamples
from mcutrain.simulation.samples import Samples


def latents_of_folder(samples: Samples, folder: Path, manifest: Manifest) -> LatentSamples:
    """Samples as what the front in `folder` makes of them. Raises BuildError, as below."""
    assert manifest.latent is not None, "the C computes a front"
    made = simulator_of_folder(folder, manifest, 1)
    shape = manifest.latent.shape[1:]
    return LatentSamples.by(samples, lambda x: made.latents(x, shape), shape)


def simulator_of_folder(folder: Path, manifest: Manifest, seed: int) -> LibrarySimulator:
    """The training step that lies in `folder`, from the weights that the model came with.

    manifest: the folder's. Raises BuildError if its C is not there, or was changed so that it does
    not compile with this version's kernels.
    """
    sizes = Sizes(
        manifest.input.size_bytes,
        manifest.output.size_bytes,
        manifest.state_bytes + manifest.shelf_bytes,
        manifest.classes,
        0 if manifest.elastic is None else len(manifest.elastic.tensors),
        label_bytes(manifest),
        has_targets(manifest),
    )
    try:
        library = build_library(Project(portable_files(folder)))
        return LibrarySimulator(library, sizes, seed)
    except (AttributeError, BuildError, OSError, UnicodeDecodeError) as error:  # what ctypes raises
        raise BuildError(
            f"the C in {folder} cannot be compiled for this computer, to find a learning rate: "
            f"{error}; give one with --lr, or generate the project anew"
        ) from error


def has_targets(manifest: Manifest) -> bool:
    """Return whether a project learns real targets."""
    return (manifest.recipe or {}).get("targets") is not None


def label_bytes(manifest: Manifest) -> int:
    """Bytes of a sample's labels, or its targets; 0 where it has one label."""
    if not manifest.positions:
        return 0
    return math.prod(manifest.positions) * (2 if has_targets(manifest) else 1)
