"""The texts of generated files, with values put in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import mcutrain_templates

from mcutrain import features
from mcutrain.codegen.c_text import broken, comment, lines, manifest, paragraph
from mcutrain.codegen.program import by_condition
from mcutrain.codegen.slots import SlotTag


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template; a value that it names and does not get is an error."""
    return environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """All templates, also those of features; it keeps those that it has read."""
    folders = (Path(mcutrain_templates.__file__).parent, Path(features.__file__).parents[1])
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        extensions=[SlotTag],
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["broken"] = broken
    environment.filters["by_condition"] = by_condition
    environment.filters["comment"] = comment
    environment.filters["lines"] = lines
    environment.filters["manifest"] = manifest
    environment.filters["paragraph"] = paragraph
    environment.filters["prefixed"] = lambda text, prefix: prefix + text
    return environment
