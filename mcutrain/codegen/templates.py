"""The texts of generated files, with values put in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template; a value that it names and does not get is an error."""
    from mcutrain.codegen.environment import environment  # jinja2: a plan prints no C

    return environment().get_template(template).render(values)
