"""Where a training step may begin instead of at its input: the latent of a scheme.

Before the first trained layer nothing changes and nothing is rounded at random, so the activation
there is a function of the sample alone. A step that begins with it ends with the same bits. After
latent replay (Pellegrini et al. 2020, section III), whose front is frozen only nearly.
"""

from __future__ import annotations

from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import PlanError, did_you_mean
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.memplan.training_plan import ScheduledStep, TrainingPlan

LEAST_SAVED = 0.03
"""Share of an inference's multiply-accumulates for which a larger latent is taken."""
DEEPEST = "auto"


@dataclass(frozen=True)
class Latent:
    """A tensor that alone crosses from the first nodes of a step to the others.

    position: how many nodes come before it, in the step's graph and in the forward one. macs: what
    these multiply and accumulate. type: of the tensor, int8.
    """

    tensor: str
    position: int
    macs: int
    type: TensorType

    @property
    def size_bytes(self) -> int:
        """Bytes of its int8 elements."""
        return self.type.size_bytes


def latents(plan: TrainingPlan | ScheduledStep) -> tuple[Latent, ...]:
    """All that a step may begin with, in the order of execution; the input is none.

    There is none behind a node that reads trained parameters. There is none within a segment, where
    no tensor is in memory as a whole.
    """
    training = plan.training
    graph, forward = training.graph, training.forward
    changing = {*training.state, *training.updated.values(), training.step, training.label}
    inner = {step for s in plan.segments for step in range(s.first + 1, s.last + 1)}
    later = [set(node.inputs) for node in (*graph.nodes, *training.apply)]
    readers = {name: step for step, names in enumerate(later) for name in names}
    found = []
    alive = {training.x}
    for position, node in enumerate(graph.nodes[: len(forward.nodes)], start=1):
        if node.name != forward.nodes[position - 1].name or changing & set(node.inputs):
            break
        alive = {n for n in (*alive, *node.outputs) if readers.get(n, -1) >= position}
        tensor = min(alive)
        kind = graph.tensors[tensor].type
        if len(alive) == 1 and position not in inner and kind.dtype == "int8":
            found.append(Latent(tensor, position, forward.macs(0, position), kind))
    return tuple(found)


def find_latent(plan: TrainingPlan | ScheduledStep, name: str = DEEPEST) -> Latent:
    """The latent of a tensor's name; auto: the one that saves most, or one of fewer bytes that
    saves nearly as much. Raises PlanError if there is none.
    """
    known = latents(plan)
    if not known and not plan.training.has_labels:
        raise PlanError(
            "no training step can begin behind the input: the network reproduces it, so the loss "
            "needs the sample"
        )
    if not known:
        raise PlanError(
            "no training step can begin behind the input: the first layer is trained, or needed "
            "by one that is; train fewer layers"
        )
    if name == DEEPEST:
        least = known[-1].macs - LEAST_SAVED * plan.training.forward.macs()
        return min((f for f in known if f.macs >= least), key=lambda f: (f.size_bytes, -f.macs))
    for latent in known:
        if latent.tensor == name:
            return latent
    names = [latent.tensor for latent in known]
    raise PlanError(
        f"a training step cannot begin with {name!r}: give one of {', '.join(names)}"
        f"{did_you_mean(name, names)}{_why_not(plan, name)}"
    )


def front(training: TrainGraph, latent: Latent) -> Graph:
    """Return what makes the latent of a sample: an int8 network of its own. training: a plan's."""
    whole = training.forward
    graph = replace(whole, inputs=(training.x,), outputs=(latent.tensor,), class_names=())
    return graph.with_nodes(whole.nodes[: latent.position])


def tail(training: TrainGraph, latent: Latent) -> TrainGraph:
    """The step with the latent for its input; its state is the whole step's. training: a plan's."""
    keep = {name for node in training.apply for name in (*node.inputs, *node.outputs)}

    def behind(graph: Graph) -> Graph:
        inputs = tuple(latent.tensor if name == training.x else name for name in graph.inputs)
        return replace(graph, inputs=inputs).with_nodes(graph.nodes[latent.position :], keep)

    return replace(
        training,
        x=latent.tensor,
        graph=behind(training.graph),
        forward=behind(training.forward),
        is_tail=True,
    )


def saves_much(plan: TrainingPlan, latent: Latent) -> bool:
    """Return whether what comes before it is a share of an inference that counts."""
    return latent.macs >= LEAST_SAVED * plan.training.forward.macs()


def front_macs(plan: TrainingPlan) -> int:
    """Multiply-accumulates before the latent that a run begins with by itself; 0: with the input.

    A run with a proxy cascade does so, and one that would hardly save any.
    """
    if plan.ladder is not None or not latents(plan):
        return 0
    latent = find_latent(plan)
    return latent.macs if saves_much(plan, latent) else 0


def _why_not(plan: TrainingPlan | ScheduledStep, name: str) -> str:
    """Return what is special about a tensor that is none."""
    if any(tensor.name == name for segment in plan.segments for tensor in segment.tensors):
        return "; it is computed row by row, which --stream off does not"
    return ""
