"""The manifest of a generated project: the one thing that the host tools know of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcutrain_host.errors import ProjectError
from mcutrain_host.files import restore_folder
from mcutrain_host.protocol import Firmware

FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """manifest.json of a project that was generated for a board.

    board: its board.toml with memory map and build flags, as `mcutrain generate --board` wrote it.
    values: the whole file.
    """

    folder: Path
    board: dict[str, Any]
    values: dict[str, Any]

    @staticmethod
    def read(folder: Path) -> Manifest:
        """Read DIR/manifest.json. Raises ProjectError."""
        path = folder / "manifest.json"
        restore_folder(folder)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ProjectError(
                f"{folder} is no generated project: it has no manifest.json; "
                "`mcutrain generate MODEL --board B -o DIR` makes one"
            ) from error
        except ValueError as error:
            raise ProjectError(f"{path} is damaged: {error}; generate the project anew") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ProjectError(f"{path} is of another version of mcutrain; generate it anew")
        if "board" not in values:
            raise ProjectError(
                f"{folder} was generated without a board: generate it anew with --board"
            )
        return Manifest(folder, values["board"], values)

    @property
    def model_hash(self) -> int:
        """What the device says too: of model, scheme and layout of the state."""
        return int(self.values["model_hash"], 16)

    @property
    def firmware(self) -> Firmware:
        """What a board with this firmware says of itself."""
        values = self.values
        return Firmware(
            self.model_hash,
            math.prod(values["input"]["shape"]),
            math.prod(values["output"]["shape"]),
            values["classes"],
            values["samples_per_update"],
            values["state_bytes"],
        )

    @property
    def elf(self) -> Path:
        """The linked firmware; it is there after `mcutrain build`."""
        return self.folder / "build" / str(self.board["compile"]["output"])

    def built_elf(self) -> Path:
        """The same. Raises ProjectError if it was not built yet."""
        if not self.elf.is_file():
            raise ProjectError(f"{self.elf} is not there: run `mcutrain build {self.folder}` first")
        return self.elf
