"""What a training step keeps from one sample to the next, by kind.

Each tensor of the state is of one of these kinds. A new one is a row here, and the call that adds
its tensors to the training graph names it.
"""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass


@dataclass(frozen=True)
class StateKind:
    """A kind of state tensor. name: in tables and files. purpose: what it is for, in a line."""

    name: str
    purpose: str


WEIGHTS = StateKind("weights", "trained weights, as the forward pass reads them")
RESIDUAL_BITS = StateKind("residual_bits", "bits of trained weights below their eight")
BIASES = StateKind("biases", "trained biases, or how far they are from their frozen values")
GRADIENT_SUMS = StateKind("gradient_sums", "gradients of the samples of an update, added up")
EXPONENTS = StateKind("exponents", "powers of two of gradients and outputs, and what they follow")
COLUMNS = StateKind("columns", "which input channels of a weight are trained now, and their worth")
USUAL = (WEIGHTS, RESIDUAL_BITS, BIASES, GRADIENT_SUMS, EXPONENTS)
"""Kinds that tables show even where a step has none of them."""
