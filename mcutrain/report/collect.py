"""A report's content from a planned training step, a board, runs and an analysis."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

from mcutrain_host.memory import Memory

from mcutrain.cost.flash import code_sizes, flash_parts
from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.cost.ladder import front_costs, front_flash_bytes
from mcutrain.cost.time import step_time
from mcutrain.features import heard_bytes
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.op import ParameterUpdate
from mcutrain.memplan import MemoryPlan, PlannedFront, TrainingPlan, rows_kept, state_parts
from mcutrain.memplan.lifetimes import SCRATCH_PREFIX
from mcutrain.memplan.placed import level_name
from mcutrain.pipeline import TrainingStep
from mcutrain.report.content import (
    ArenaBuffer,
    ArenaMap,
    Executed,
    FrontMap,
    Instructions,
    NetworkNode,
    Report,
    Usage,
    UsagePart,
)
from mcutrain.report.learning import MEASURES, LearningCurve, Point, measures_of
from mcutrain.runs.result import SimulationResult
from mcutrain.sparse import UpdateScheme, all_layers_of, find_head, layers_of, resolve
from mcutrain.sparse.modules import added_columns
from mcutrain.target import Target

CODE = "code, at most"
LADDER = "fronts of the proxy cascade"
FLASH_PARTS = {
    "constant": "frozen weights and biases",
    "initial": "initial state",
    "table": "tables of multipliers",
    "params": "parameters of kernels",
    "call": CODE,
    "code": CODE,
}
"""The kinds of mcutrain.cost.flash."""

SECTIONS = {
    ".vectors": "vectors (.vectors)",
    ".text": "code (.text)",
    ".rodata": "constants (.rodata)",
    ".data": "initial values (.data)",
}
"""Sections of an ELF file, in words."""


def collect(
    step: TrainingStep, target: Target | None = None, linked: Memory | None = None
) -> Report:
    """All that a step says of itself; dataclasses.replace adds runs, an analysis, commands.

    target: the board it is for. linked: what its ELF file occupies, if it is built.
    """
    isa = "" if target is None else target.costs
    return Report(
        model=step.graph.name,
        scheme=step.scheme.name,
        classes=step.plan.training.classes if step.plan.training.has_labels else 0,
        generator=f"mcutrain {version('mcutrain')}",
        scheme_toml=resolved_scheme(step).to_toml(),
        network=_network(step),
        memory=memory_of(step.plan),
        fronts=fronts_of(step.plan, isa),
        usage=_usage(step.plan, target, linked),
        instructions=_instructions(step, target) if target is not None else None,
    )


def curve_of(name: str, result: SimulationResult, seed: int = 0) -> LearningCurve:
    """A simulated run as a curve over its epochs."""
    before = {name: getattr(result, f"{name}_before") for name in MEASURES}
    points = [Point(0, _known(result.before), measures=measures_of(before))]
    for e in result.epochs:
        tested = measures_of({name: getattr(e, f"test_{name}") for name in MEASURES})
        accuracies = _known(e.test_accuracy), _known(e.train_accuracy)
        points.append(Point(e.epoch, *accuracies, e.loss, tested))
    return LearningCurve(name, tuple(points), seed)


def _known(accuracy: float | None) -> float | None:
    """None where there are no classes."""
    return None if accuracy is None or math.isnan(accuracy) else accuracy


def command_line() -> str:
    """Return what was typed to run this process, fit to be typed again."""
    return shlex.join(["mcutrain", *sys.argv[1:]])


def _state_parts(plan: TrainingPlan) -> dict[str, int]:
    words = {"weights": "trained weights", "biases": "trained biases"}
    parts = state_parts(plan).items()
    return {words.get(kind, kind.replace("_", " ")): size for kind, size in parts}


def resolved_scheme(step: TrainingStep) -> UpdateScheme:
    """The step's scheme with every layer and share by name, which a TOML file can say.

    Shares are of a layer's own channels, not of the columns of its module.
    """
    graph = step.graph
    layers = layers_of(graph, find_head(graph))
    updates = resolve(step.scheme, graph)
    added = added_columns(graph) if step.scheme.modules else {}
    shares = {la.name: _share(graph, la.weight, updates, added.get(la.weight, 0)) for la in layers}
    weights = {name: share for name, share in shares.items() if share}
    depth = len(layers) if step.scheme.bias_depth is None else step.scheme.bias_depth
    return replace(step.scheme, bias_depth=depth, weights=weights, depth_weights=0)


def memory_of(plan: TrainingPlan) -> ArenaMap:
    """Every buffer of the arena, from the lowest offset up, with its kind."""
    return _map(plan.arena, plan.nodes, _kinds(plan))


def fronts_of(plan: TrainingPlan, isa: str = "") -> tuple[FrontMap, ...]:
    """Return a proxy cascade's policy and levels, the whole front without buffers; else nothing."""
    ladder = plan.ladder
    if ladder is None:
        return ()
    policy, whole, *proxies = front_costs(plan, isa or USUAL_ISA)
    found = [
        FrontMap(name, **asdict(cost), memory=_map(front.arena, front.nodes, _front_kinds(front)))
        for (name, front), cost in zip(ladder.named.items(), (policy, *proxies), strict=True)
    ]
    return (found[0], FrontMap(level_name(0), **asdict(whole)), *found[1:])


def _map(arena: MemoryPlan, nodes: Sequence[Node], kinds: Mapping[str, str]) -> ArenaMap:
    spans = [
        ArenaBuffer(
            b.name, kinds.get(b.name, "other"), b.size_bytes, b.first, b.last, arena.offsets[b.name]
        )
        for b in arena.buffers
    ]
    return ArenaMap(
        arena.arena_bytes,
        arena.lower_bound_bytes,
        arena.peak_step,
        tuple(node.name for node in nodes),
        tuple(sorted(spans, key=lambda s: (s.offset, s.first, s.name))),
    )


def _front_kinds(front: PlannedFront) -> dict[str, str]:
    """Buffer → what it holds: a front is an inference."""
    return {
        **dict.fromkeys(front.buffer_of.values(), "activation"),
        **{front.scratch_buffer(node.name): "scratch" for node in front.nodes},
        **dict.fromkeys(rows_kept(front), "ring"),
    }


def _kinds(plan: TrainingPlan) -> dict[str, str]:
    """Buffer → what it holds, by what its first tensor is."""
    training = plan.training
    nodes = plan.nodes
    loss = next(i for i, n in enumerate(nodes) if training.loss in n.outputs)
    kind_of = {training.x: "activation"}
    kind_of |= {SCRATCH_PREFIX + node.name: "scratch" for node in nodes}
    kind_of |= {name: "activation" for node in plan.tail for name in node.outputs}
    for i, node in enumerate(nodes):
        for position, name in enumerate(node.outputs):
            if _is_constant(plan, node):
                kind_of[name] = "weights"
            elif i >= loss:
                kind_of[name] = "gradient"
            else:
                kind_of[name] = "mask" if position > 0 else "activation"
    kinds = {plan.buffer_of.get(name, name): kind for name, kind in reversed(kind_of.items())}
    return {**kinds, **dict.fromkeys(rows_kept(plan), "ring")}


def _is_constant(plan: TrainingPlan, node: Node) -> bool:
    """Return whether the node reads nothing but constants and state: it puts weights together."""
    training = plan.training
    kept, tensors = {*training.state, *training.backing}, training.graph.tensors
    return all(n in kept or tensors[n].is_constant for n in node.inputs)


def _network(step: TrainingStep) -> tuple[NetworkNode, ...]:
    graph = step.graph
    head = find_head(graph)
    layers = {layer.name: layer for layer in (*all_layers_of(graph, head), head)}
    updates = resolve(step.scheme, graph)
    found = []
    for node in graph.nodes:
        types, results = graph.types(node.inputs), graph.types(node.outputs)
        layer = layers.get(node.name)
        found.append(
            NetworkNode(
                name=node.name,
                operator=type(node.op).__name__,
                output=results[0].shape[1:],
                macs=node.op.macs(types, results),
                weights=0 if layer is None else graph.tensors[layer.weight].type.elements,
                layer=None if layer is None else layer.index,
                is_head=node.name == head.name,
                share=0.0 if layer is None else _share(graph, layer.weight, updates),
                trains_bias=layer is not None and layer.bias in updates,
            )
        )
    return tuple(found)


def _share(
    graph: Graph, weight: str, updates: Mapping[str, ParameterUpdate], added: int = 0
) -> float:
    """The trained share of a weight's input channels. added: all trained, that do not count."""
    if weight not in updates:
        return 0.0
    channels = updates[weight].channels
    total = graph.tensors[weight].type.shape[-1] - added
    return 1.0 if channels is None else (len(channels) - added) / total


def _usage(plan: TrainingPlan, target: Target | None, linked: Memory | None) -> Usage:
    state = tuple(UsagePart(name, size) for name, size in _state_parts(plan).items() if size)
    heard = heard_bytes(plan.training, target)
    state += (UsagePart("front end", heard),) if heard else ()
    flash = planned_flash(plan, "" if target is None else target.costs)
    if target is None or target.ram is None:
        return Usage((UsagePart("arena", plan.arena_bytes), *state), flash)
    limits: dict[str, Any] = {
        "board": target.title,
        "sram_limit": target.ram.size_bytes,
        "flash_limit": None if target.flash is None else target.flash.size_bytes,
    }
    if linked is not None:
        return linked_usage(linked, state, **limits)
    total = target.sram_bytes(plan.arena_bytes, plan.resident_bytes)
    own = total - plan.sram_bytes - target.stack_bytes
    parts = (
        UsagePart("arena", plan.arena_bytes),
        *state,
        UsagePart("firmware's own", own),
        UsagePart("stack", target.stack_bytes),
    )
    return Usage(parts, flash, **limits)


def planned_flash(plan: TrainingPlan, isa: str = "") -> tuple[UsagePart, ...]:
    """What lies in flash, by what it is. isa: whose code is counted, too, if its size is known."""
    code = code_sizes(isa) if isa else None
    sizes = dict.fromkeys(FLASH_PARTS.values(), 0)
    sizes[CODE] += 0 if code is None else code.fixed
    for key, part in flash_parts(plan.training, code).items():
        assert isinstance(key, tuple)
        sizes[FLASH_PARTS[key[0]]] += part.size_bytes
    sizes[LADDER] = sum(front_flash_bytes(plan, code))
    return tuple(UsagePart(name, size) for name, size in sizes.items() if size)


def linked_usage(linked: Memory, state: tuple[UsagePart, ...] = (), **limits: Any) -> Usage:
    """Return what the ELF file occupies. state: the trainable state by kind, if that is known."""
    sizes = {part.name: part.linked for part in linked.sram}
    kinds = state or (UsagePart("trainable state", sizes["trainable state"]),)
    sram: list[UsagePart] = []
    for name, size in sizes.items():
        sram += kinds if name == "trainable state" else [UsagePart(name, size)]
    flash = tuple(UsagePart(SECTIONS.get(name, name), size) for name, size in linked.flash)
    return Usage(tuple(sram), flash, is_linked=True, **limits)


def _instructions(step: TrainingStep, target: Target) -> Instructions | None:
    counts = estimate(step.plan.training, target.costs, step.plan.segments)
    if not counts:
        return None
    operators = {node.name: type(node.op).__name__ for node in step.plan.nodes}
    nodes = tuple(Executed(name, operators[name], n) for name, n in counts.items() if n > 0)
    took = step_time(step.plan, target)
    time = "" if took is None else f"A step takes {took.text}: {took.reason}."
    return Instructions(target.isa, nodes, time=time)
