"""A proxy cascade: cheaper networks in the place of a network's own before its latent.

After PieBridge (SenSys 2024), whose proxies are pruned and distilled. For an easy sample one of
them makes nearly the latent of the whole front.
"""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import PlanError
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph, TensorType


@dataclass(frozen=True)
class Ladder:
    """Fronts from the whole one, level 0, which is the network's own and not in here, to the least.

    latent: the tensor of the network that all of them make. proxies: of levels 1, 2, …; each takes
    the network's sample and gives what has the latent's type. policy: takes the sample and gives
    int8 scores [1, levels]; the level is that of the largest, of equal ones the lowest. Raises
    PlanError if one does not fit the others.
    """

    latent: str
    proxies: tuple[Graph, ...]
    policy: Graph

    def __post_init__(self) -> None:
        scores = _only(self.policy, self.policy.outputs, "the policy's output")
        if scores.dtype != "int8" or scores.shape != (1, self.levels):
            raise PlanError(
                f"the policy gives {scores.dtype} {list(scores.shape)}, but has to give int8 "
                f"[1, {self.levels}]: a score for each level"
            )
        for graph in self.proxies:
            sample = _only(graph, graph.inputs, "a proxy's input")
            if sample != _only(self.policy, self.policy.inputs, "the policy's input"):
                raise PlanError("the proxies and the policy take different samples")
            if _only(graph, graph.outputs, "a proxy's output") != self.latent_type:
                raise PlanError("the proxies give latents of different types")

    @property
    def levels(self) -> int:
        """How many fronts there are, the whole one among them."""
        return 1 + len(self.proxies)

    @property
    def digest(self) -> str:
        """Digest of what policy and proxies compute."""
        return " ".join(map(graph_digest, (self.policy, *self.proxies)))

    @property
    def latent_type(self) -> TensorType:
        """Type of what each front gives."""
        return _only(self.proxies[0], self.proxies[0].outputs, "a proxy's output")


def _only(graph: Graph, names: tuple[str, ...], what: str) -> TensorType:
    if len(names) != 1:
        raise PlanError(f"{what} has to be one tensor, not {len(names)}")
    return graph.tensors[names[0]].type
