"""All templates of generated files, and what they may call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jinja2
import mcutrain_templates
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context

from mcutrain import features
from mcutrain.codegen.c_text import broken, comment, lines, manifest, paragraph
from mcutrain.codegen.program import by_condition
from mcutrain.codegen.slots import PLAIN, SLOTS, filled, template_names


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """All templates, also those of features; it keeps those that it has read."""
    folders = (Path(mcutrain_templates.__file__).parent, Path(features.__file__).parents[1])
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        extensions=[SlotTag],
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
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


class SlotTag(Extension):
    """`{% slot name %}`: the blocks of that name, of the parts that the value `parts` names."""

    tags = {"slot"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Make the tag a call of `fill`."""
        line = next(parser.stream).lineno
        slot = parser.stream.expect("name").value
        assert parser.name is not None, "templates come from files"
        language = "h" if parser.name.endswith(".h.j2") else "c"
        assert slot in SLOTS[language], f"{parser.name} has an unknown slot {slot}"
        names: list[nodes.Expr] = [nodes.Const(slot), nodes.Const(language)]
        call = self.call_method("fill", [*names, nodes.ContextReference()])
        return nodes.Output([call]).set_lineno(line)

    def fill(self, slot: str, language: str, context: Context) -> str:
        """The text of a slot."""
        parts = {part: self._template(part, language) for part in (*context["parts"], PLAIN)}
        templates = {part: template for part, template in parts.items() if template is not None}
        blocks = {part: template.blocks for part, template in templates.items()}
        values = context.get_all()
        texts: list[str] = []
        for part in filled(slot, language, blocks):
            own = templates[part].new_context(values, shared=True)
            texts += blocks[part][slot](own)
        return "".join(texts)

    def _template(self, part: str, language: str) -> jinja2.Template | None:
        """None where a part fills nothing in this file."""
        try:
            return self.environment.select_template(template_names(part, language))
        except jinja2.TemplateNotFound:
            return None
