"""What each front of a proxy cascade costs a board: multiply-accumulates, instructions, flash."""

from __future__ import annotations

from mcutrain_host.manifest import FrontCost

from mcutrain.cost.flash import CodeSizes, code_sizes, flash_parts, inference_parts
from mcutrain.cost.instructions import USUAL_ISA, estimate, model_for, network_instructions
from mcutrain.errors import PlanError
from mcutrain.memplan import TrainingPlan, front_constant_bytes
from mcutrain.target import Target


def front_costs(plan: TrainingPlan, isa: str = USUAL_ISA) -> tuple[FrontCost, ...]:
    """Return the costs of the policy, the whole front, level 1 and so on; none without proxies.

    Flash is what a front has besides the step and the fronts before it; the whole front's is a part
    of the step's. isa: of the board, see mcutrain.cost.instructions.model_for. Raises TargetError.
    """
    ladder = plan.ladder
    if ladder is None:
        return ()
    isa = model_for(isa)
    code = code_sizes(isa)
    flash = front_flash_bytes(plan, code)
    training = plan.training
    instructions = estimate(training, isa, plan.segments)
    own = training.graph.nodes[: ladder.position]
    graph = training.forward.with_nodes(training.forward.nodes[: ladder.position])
    parts = dict(inference_parts(graph, code))
    constants = sum(graph.tensors[name].type.size_bytes for name in graph.constants())
    whole = FrontCost(
        macs=training.forward.macs(0, ladder.position),
        instructions=sum(instructions[node.name] for node in own),
        flash_bytes=constants + sum(part.size_bytes for part in parts.values()),
    )
    others = [
        FrontCost(
            macs=front.graph.macs(),
            instructions=sum(network_instructions(front.graph, isa, front.segments).values()),
            flash_bytes=size_bytes,
        )
        for front, size_bytes in zip(ladder.fronts, flash, strict=True)
    ]
    return (others[0], whole, *others[1:])


def front_flash_bytes(plan: TrainingPlan, code: CodeSizes | None) -> list[int]:
    """Return the flash of the policy and each proxy, beyond what stands before it.

    It counts weights, tables, parameters, calls, and kernels that nobody else needs.
    """
    if plan.ladder is None:
        return []
    known = set(flash_parts(plan.training, code))
    sizes = front_constant_bytes(plan, plan.ladder.fronts)
    for i, front in enumerate(plan.ladder.fronts):
        for key, part in inference_parts(front.graph, code):
            if key not in known:
                known.add(key)
                sizes[i] += part.size_bytes
    return sizes


def check_flash(plan: TrainingPlan, target: Target) -> None:
    """Raise PlanError if the weights, with a proxy cascade's, leave no room in a board's flash."""
    if plan.ladder is None or target.flash is None:
        return
    sizes = front_constant_bytes(plan, plan.ladder.fronts)
    if plan.constant_bytes > target.flash.size_bytes:
        raise PlanError(
            f"the frozen weights take {plan.constant_bytes:,} bytes of flash, {sum(sizes):,} of "
            f"them those of the cascade ({', '.join(f'{size:,}' for size in sizes)} of the policy "
            f"and of each level), and {target.name} has {target.flash.size_bytes:,} for the whole "
            "program: make a cascade of fewer levels"
        )
