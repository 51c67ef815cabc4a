"""What to train: update schemes, and their resolution against a model."""

from mcutrain.sparse.channels import ChannelOrder
from mcutrain.sparse.layers import Layer, all_layers_of, find_head, heads_of, layers_of
from mcutrain.sparse.resolution import arrange, resolve
from mcutrain.sparse.scheme import UpdateScheme, as_scheme, parse_scheme

__all__ = [
    "ChannelOrder",
    "Layer",
    "UpdateScheme",
    "all_layers_of",
    "arrange",
    "as_scheme",
    "find_head",
    "heads_of",
    "layers_of",
    "parse_scheme",
    "resolve",
]
