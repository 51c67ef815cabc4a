"""What to train: update schemes, and their resolution against a model."""

from mcutrain.sparse.layers import Layer, find_head, layers_of
from mcutrain.sparse.scheme import UpdateScheme, parse_scheme, resolve

__all__ = ["Layer", "UpdateScheme", "find_head", "layers_of", "parse_scheme", "resolve"]
