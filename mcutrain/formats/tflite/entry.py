"""What mcutrain knows of one operator of .tflite files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ir.op import Op

Rule = Callable[[Operands], None]
Int8Rule = Callable[[Int8Operator], None]
FloatRule = Callable[[FloatOperator], None]
Emitter = Callable[[TfliteWriter, Node], None]


@dataclass(frozen=True)
class Entry:
    """An operator: how it is read, from models to train (int8) and from models to quantize (real).

    both: the rule of either, where int8 or real is not there. reason: why one of the two is
    missing. writes: the emitters of our operators that may become this one. version: the first one
    whose kernels take int8, as op_version.cc of TFLite has it.
    """

    name: str
    both: Rule | None = None
    int8: Int8Rule | None = None
    real: FloatRule | None = None
    reason: str = ""
    writes: Mapping[type[Op], Emitter] = field(default_factory=dict)
    version: int = 1

    @property
    def int8_rule(self) -> Int8Rule | None:
        """How it is read from models to train."""
        return self.int8 or self.both

    @property
    def float_rule(self) -> FloatRule | None:
        """How it is read from models to quantize."""
        return self.real or self.both
