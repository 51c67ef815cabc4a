"""The table of all operators of .tflite files; each family's module says what it knows."""

from __future__ import annotations

from mcutrain.formats.tflite import (
    arithmetic,
    curves,
    cutting,
    pooling,
    products,
    recurrent,
    rescaling,
    resizing,
    shapes,
    sums,
)

_FAMILIES = (
    arithmetic,
    curves,
    cutting,
    pooling,
    products,
    recurrent,
    rescaling,
    resizing,
    shapes,
    sums,
)
OPERATORS = {one.name: one for family in _FAMILIES for one in family.OPERATORS}
INT8_RULES = {name: one.int8_rule for name, one in OPERATORS.items() if one.int8_rule}
FLOAT_RULES = {name: one.float_rule for name, one in OPERATORS.items() if one.float_rule}
EMITTERS = {kind: emit for one in OPERATORS.values() for kind, emit in one.writes.items()}
VERSIONS = {name: one.version for name, one in OPERATORS.items()}
