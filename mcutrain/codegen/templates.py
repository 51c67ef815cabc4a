"""The texts of generated files, with values put in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import mcutrain_templates

from mcutrain.codegen.c_text import broken, lines, manifest, paragraph
from mcutrain.codegen.program import by_condition


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template; a value that it names and does not get is an error."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    """It keeps the templates that it has read."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(mcutrain_templates.__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["broken"] = broken
    environment.filters["by_condition"] = by_condition
    environment.filters["lines"] = lines
    environment.filters["manifest"] = manifest
    environment.filters["paragraph"] = paragraph
    environment.filters["prefixed"] = lambda text, prefix: prefix + text
    return environment
