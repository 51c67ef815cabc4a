"""Instructions of a step in the mean, where samples take different ways through it."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.cost.ladder import front_costs
from mcutrain.memplan import TrainingPlan


@dataclass(frozen=True)
class StepParts:
    """Estimated instructions of the parts of a step.

    policy: 0 without a proxy cascade. fronts: of each level, the whole one first; without a proxy
    cascade it is counted with the loss. loss: from the latent to the loss. update: behind it, what
    a sample saves that a gate keeps from being learnt.
    """

    policy: int
    fronts: tuple[int, ...]
    loss: int
    update: int

    @staticmethod
    def of(plan: TrainingPlan, isa: str = USUAL_ISA) -> StepParts | None:
        """Return the parts of a planned step; None for an isa without a model of instructions."""
        found = estimate(plan.training, isa, plan.segments)
        if not found:
            return None
        policy, fronts, before = 0, [0], 0
        if plan.ladder is not None:
            policy, *fronts = (cost.instructions for cost in front_costs(plan, isa))
            before = plan.ladder.position
        names = [node.name for node in plan.training.graph.nodes]
        loss = sum(found[name] for name in names[before : plan.training.loss_step + 1])
        return StepParts(policy, tuple(fronts), loss, sum(found.values()) - fronts[0] - loss)

    @property
    def whole(self) -> int:
        """Instructions of a step by the whole front that learns, if nothing chooses it."""
        return self.fronts[0] + self.loss + self.update

    def mean(self, learnt: float = 1.0, levels: Sequence[float] | None = None) -> float:
        """Instructions of a mean step. learnt: share of samples; levels: shares of each front.

        Without levels nothing chooses: all samples take the whole front.
        """
        fronts = float(self.fronts[0])
        if levels is not None:
            pairs = zip(levels, self.fronts, strict=True)
            fronts = self.policy + sum(share * front for share, front in pairs)
        return fronts + self.loss + learnt * self.update
