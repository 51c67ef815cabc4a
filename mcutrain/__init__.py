"""Train int8 networks on microcontrollers: what you simulate is what you flash."""

from importlib.metadata import version

__version__ = version("mcutrain")
