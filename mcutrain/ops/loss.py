"""What loss operators share: where a training step turns from forward to backward."""

from __future__ import annotations

from mcutrain.ir.op import Op


class LossOp(Op):
    """A loss of the last layer's sums, and its gradient by them.

    Inputs: step, sums int32, target, exponent. Outputs: gradient, exponent, loss as Q16 int32 [1],
    prediction int32 [1]. The target is the label, int32 [1], unless `target_is_input`.
    """

    @property
    def gradient_scale(self) -> float:
        """The constant in derivative = gradient * 2**exponent * gradient_scale."""
        raise NotImplementedError

    @property
    def target_is_input(self) -> bool:
        """Whether the target is the network's own input, so that there are no labels."""
        return False

    @property
    def updates(self) -> dict[int, int]:
        """The exponent is updated where it lies."""
        return {1: 3}
