"""A proxy cascade as a folder: a file for each, one for the policy, and what they are for."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcutrain_host.files import keep_others, replace_folder, restore_folder, unwritable
from mcutrain_host.reading import read_text
from mcutrain_host.text import reason

from mcutrain.errors import McutrainError, PlanError
from mcutrain.formats import load, write
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import verify
from mcutrain.memplan import Ladder

LADDER_FILE = "ladder.json"
POLICY_FILE = "policy.tflite"
FORMAT = 1
MOST_PROXIES = 15
"""A level has 4 bits where it is remembered."""


def write_ladder(
    ladder: Ladder, folder: Path, front: Graph, facts: Mapping[str, Any] | None = None
) -> None:
    """Write a folder as a whole or not at all.

    front: the network's own, level 0 (mcutrain.memplan.front). facts: what else is to be known of
    the cascade, for its JSON file. What else a folder with a proxy cascade holds stays. Raises
    McutrainError if the folder holds something else alone, or cannot be written,
    UnsupportedError if no .tflite file can hold a front.
    """
    check_folder(folder)
    known = {
        "format": FORMAT,
        "latent": ladder.latent,
        "front": graph_digest(front),
        "proxies": len(ladder.proxies),
    }
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent))
        try:
            for level, graph in enumerate(ladder.proxies, 1):
                write(graph, fresh / _file_of(level))
            write(ladder.policy, fresh / POLICY_FILE)
            text = json.dumps({**known, **(facts or {})}, indent=2, ensure_ascii=False)
            (fresh / LADDER_FILE).write_text(text + "\n", encoding="utf-8")
            if folder.is_dir():
                keep_others(folder, fresh, _is_own)
            fresh.chmod(0o755)
            replace_folder(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise McutrainError(f"cannot write {folder}: {unwritable(folder, error)}") from error


def check_folder(folder: Path) -> None:
    """Raise McutrainError if the folder holds something that is no ladder."""
    if folder.exists() and not folder.is_dir():
        raise McutrainError(f"{folder} is a file; give a folder for the cascade")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LADDER_FILE).is_file():
        raise McutrainError(
            f"{folder} exists and holds no cascade of fronts; give another folder, or empty it"
        )


def drop_ladder(folder: Path) -> None:
    """Remove the cascade in a folder, if there is one, and the folder if nothing else is in it.

    Raises McutrainError if it cannot be.
    """
    if (folder / LADDER_FILE).is_file():
        try:
            for path in sorted(folder.iterdir()):
                if path.is_file() and _is_own(path.name):
                    path.unlink()
            if not any(folder.iterdir()):
                folder.rmdir()
        except OSError as error:
            raise McutrainError(f"cannot remove {folder}: {unwritable(folder, error)}") from error


def read_ladder(folder: Path, front: Graph) -> Ladder:
    """The cascade of a folder. front: that of the network it is to be used with.

    Raises McutrainError if there is none, PlanError if it was made for another front.
    """
    facts = read_facts(folder)
    digest, latent = graph_digest(front), front.outputs[0]
    if facts["latent"] != latent:
        raise PlanError(
            f"the cascade {folder} makes the latent {facts['latent']!r}, but this network's step "
            f"begins with {latent!r}: make it again with `mcutrain proxies`, the same scheme and "
            "--latent"
        )
    if facts["front"] != digest:
        raise PlanError(
            f"the cascade {folder} was made for another front: make it again with `mcutrain "
            "proxies`, of this model and scheme"
        )
    proxies = tuple(_graph(folder / _file_of(i + 1)) for i in range(facts["proxies"]))
    ladder = Ladder(latent, proxies, _graph(folder / POLICY_FILE))
    if ladder.latent_type != front.tensors[latent].type:
        raise PlanError(f"the fronts of {folder} make a latent of another type than the network")
    return ladder


def kept_ladder(folder: Path) -> Callable[[Callable[[str], Graph]], Ladder]:
    """Return what reads the cascade of a folder for a step, as mcutrain.prepare takes it.

    It raises as read_ladder does, and PlanError if the step cannot begin with the latent. Other
    processes can have it.
    """
    return partial(_ladder_for, folder)


def _ladder_for(folder: Path, front_of: Callable[[str], Graph]) -> Ladder:
    latent = read_facts(folder)["latent"]
    try:
        front = front_of(latent)
    except PlanError as error:
        raise PlanError(f"the cascade {folder} makes latents, and {error}") from error
    return read_ladder(folder, front)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return what a folder says of its proxy cascade. Raises McutrainError if it is none."""
    restore_folder(folder)
    path = folder / LADDER_FILE
    try:
        content = json.loads(read_text(path))
    except OSError as error:
        raise McutrainError(
            f"cannot read {path}: {error.strerror or error}; `mcutrain proxies` makes such a folder"
        ) from error
    except (ValueError, RecursionError) as error:
        raise McutrainError(f"{path} is no JSON file: {reason(error)}") from error
    is_known = isinstance(content, dict) and content.get("format") == FORMAT
    kinds = {"latent": str, "front": str, "proxies": int}
    if not is_known or not all(isinstance(content.get(k), kind) for k, kind in kinds.items()):
        raise McutrainError(f"{path} is no cascade that this version knows: make it again")
    if not 1 <= content["proxies"] <= MOST_PROXIES:
        raise McutrainError(f"{path} says {content['proxies']} proxies, not 1 to {MOST_PROXIES}")
    facts: dict[str, Any] = content
    return facts


def _is_own(name: str) -> bool:
    """Return whether a file of this name is one of a proxy cascade's."""
    levels = (_file_of(level) for level in range(1, MOST_PROXIES + 1))
    return name in {LADDER_FILE, POLICY_FILE, *levels}


def _file_of(level: int) -> str:
    return f"level_{level}.tflite"


def _graph(path: Path) -> Graph:
    if not path.is_file():
        raise McutrainError(f"{path} is missing: make the cascade again with `mcutrain proxies`")
    return verify(load(path))
