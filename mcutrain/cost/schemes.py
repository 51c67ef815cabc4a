"""What update schemes take of a board: fast sums for selection, plans and builds for its winners.

mcutrain.selection.select asks these functions; it knows neither the planner nor a compiler.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

from mcutrain_host.build import build, find_toolchain
from mcutrain_host.errors import BuildError
from mcutrain_host.saved import COUNTERS

from mcutrain.codegen.firmware import compile_facts
from mcutrain.cost import instructions
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.kept import KeptCosts
from mcutrain.cost.memory import cost_of, flash_bytes
from mcutrain.features import heard_bytes, listening_bytes
from mcutrain.ir.graph import Graph
from mcutrain.memplan.training_plan import least_front_bytes
from mcutrain.pipeline import StepOptions, TrainingStep, differentiated, prepare
from mcutrain.pipeline.losses import loss_to_targets
from mcutrain.selection.cost import CostFunction, CostModel, Needs, SchemeCost
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.leaving_out import trained_modules_only, without_modules
from mcutrain.target import Target
from mcutrain.update_rules import SGD

DEFAULTS = StepOptions()
T = TypeVar("T")


def scheme_cost(
    graph: Graph, isa: str | None = None, options: StepOptions = DEFAULTS
) -> CostFunction:
    """Return what an update scheme of a model takes, without the search for offsets.

    graph: with the head that is trained; options say of outputs whether targets are real. isa: a
    board's instruction set; without it flash and instructions are not counted. What was worked out
    before, by this program or another, is known.
    """
    align_bytes = options.align_bytes
    code = None if isa is None else code_sizes(isa)
    kept = KeptCosts(graph, isa, options)
    plain, places = without_modules(graph)
    targets = options.targets
    loss = None if targets is None else loss_to_targets(graph, options.loss, targets)

    @lru_cache(maxsize=1)
    def least_front() -> int:
        return least_front_bytes(plain, align_bytes)

    @_remembered
    def cost(scheme: UpdateScheme) -> SchemeCost:
        known = kept.get(scheme)
        if known is None:
            alone = trained_modules_only(graph, scheme)
            _, training = differentiated(alone, scheme, options, loss)
            counts = None if isa is None else instructions.estimate(training, isa)
            known = cost_of(training, align_bytes, code, counts, least_front(), bool(places))
            kept.put(scheme, known)
        return known

    return cost


def cost_model(
    graph: Graph,
    target: Target | None = None,
    options: StepOptions = DEFAULTS,
    builds: bool = False,
    bias_bits: tuple[int, ...] = (UpdateScheme.bias_bits,),
    layer_bits: bool = False,
    update_rule: str = SGD,
) -> CostModel:
    """Return how update schemes of a model are costed for selection.

    graph: with the head that is trained. target: without one, SRAM is arena and state only, and
    there is neither flash nor instructions. builds: a selected scheme's firmware is compiled, too.
    bias_bits, layer_bits: what to choose from, see CostModel. update_rule: of all schemes.
    """
    isa = None if target is None else target.costs
    code = None if isa is None else code_sizes(isa)
    # a scheme may train no layer in part
    planning = replace(options.learning_alone, swap="", targets=options.targets)
    if options.targets is not None:
        planning = replace(planning, loss=options.loss)
    fixed = 0 if target is None else target.stack_bytes + target.firmware_bytes()
    fixed += _heard(graph, target)

    @_remembered
    def planned(scheme: UpdateScheme) -> Needs:
        return _needs(prepare(graph, scheme, planning), target)

    @_remembered
    def compiled(scheme: UpdateScheme) -> Needs | None:
        assert target is not None
        return _built(prepare(graph, scheme, planning), target)

    return CostModel(
        cost=scheme_cost(graph, isa, options),
        plan=planned,
        build=compiled if builds and target is not None and not target.is_hosted else None,
        fixed_sram_bytes=COUNTERS.size + fixed,
        fixed_flash_bytes=0 if code is None else code.fixed,
        bias_bits=bias_bits,
        layer_bits=layer_bits,
        update_rule=update_rule,
    )


def _heard(graph: Graph, target: Target | None) -> int:
    """Bytes of SRAM that schemes of a network with a front end take anyway, see heard_bytes."""
    front = None if graph.input_order is None else graph.input_order.frontend
    is_sent = target is not None and target.has_firmware
    return 0 if front is None or is_sent else listening_bytes(front)


def has_compiler(target: Target) -> bool:
    """Return whether firmware for the board can be compiled here."""
    if not target.has_firmware:
        return False
    try:
        find_toolchain(compile_facts(target, ()))
    except BuildError:
        return False
    return True


def _remembered(function: Callable[[UpdateScheme], T]) -> Callable[[UpdateScheme], T]:
    """Work out each scheme once, since selections by several measures ask again."""
    known: dict[str, T] = {}

    @wraps(function)
    def remembering(scheme: UpdateScheme) -> T:
        key = scheme.to_toml()
        if key not in known:
            known[key] = function(scheme)
        return known[key]

    return remembering


def _needs(step: TrainingStep, target: Target | None) -> Needs:
    """Return what the plan says of memory, and estimates of the rest."""
    plan = step.plan
    code = None if target is None else code_sizes(target.costs)
    counts = (
        {} if target is None else instructions.estimate(plan.training, target.costs, plan.segments)
    )
    sram = target.sram_bytes if target is not None else lambda arena, state: arena + state
    return Needs(
        sram_bytes=sram(plan.arena_bytes, plan.state_bytes) + heard_bytes(plan.training, target),
        arena_bytes=plan.arena_bytes,
        state_bytes=plan.state_bytes,
        flash_bytes=0 if code is None else flash_bytes(plan.training, code),
        instructions=sum(counts.values()),
        peak_step=plan.arena.peak_step,
        peak_node=plan.nodes[plan.arena.peak_step].name,
    )


def _built(step: TrainingStep, target: Target) -> Needs | None:
    """Read the needs from the linked ELF; None if the linker has too little memory."""
    from mcutrain_host.memory import linked_memory  # what reads ELF files is slow to import

    estimated = _needs(step, target)
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        project = Path(folder) / "project"
        step.firmware(target).write(project)
        try:
            build(project)
        except BuildError as error:
            if "bytes too many" in str(error):
                return None
            raise
        memory = linked_memory(project)
    assert memory is not None
    return replace(
        estimated,
        sram_bytes=memory.linked_bytes,
        flash_bytes=memory.flash_bytes,
        was_built=True,
    )
