"""Changes of an int8 graph that keep it an int8 graph."""

from mcutrain.quant.head import replace_head

__all__ = ["replace_head"]
