"""The scheme that learns most as a whole: exact search with tangents.

For a level a, the schemes that may reach it satisfy a linear inequality per scheme that was looked
at (mcutrain.selection.kernels): <G₀, s K - X₀> >= a - g(X₀). K and t are sums over what is chosen.
Divided by s, the right side has the factor 1 / s, which is convex in t and hence above its own
tangent. So an integer program under the true costs finds either a scheme that may reach the level,
which is then looked at, or a proof that there is none. This is outer approximation (Duran,
Grossmann 1986; for a function whose level sets are convex: Westerlund, Pörn 2002). The level is a
little above the best scheme so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.selection.choices import Choices
from mcutrain.selection.cost import Limits
from mcutrain.selection.kernels import LEAST_PACE, Kernels, Tangent
from mcutrain.selection.milp import Chosen, IntegerProgram
from mcutrain.selection.search import Contender, contender, programs
from mcutrain.selection.units import Shares, Structure, kept_channels

Array = npt.NDArray[Any]
Key = tuple[int, float]
"""A layer or module, and its share."""

TOLERANCE = 5e-4
"""How much more than the chosen scheme another one may learn, in parts of the samples."""


@dataclass(frozen=True)
class TangentBound:
    """A tangent as sums: products with its slope of the last biases, by depth, and of weights."""

    tangent: Tangent
    biases: Array
    weights: Mapping[Key, float]


@dataclass
class Joint:
    """What schemes of a network learn. bounds: of all schemes that were looked at so far; they
    hold under any limits. known: what these schemes learn."""

    kernels: Kernels
    structure: Structure
    bounds: list[TangentBound] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._products = {
            (i, share): m for i, by in self.kernels.weights.items() for share, m in by.items()
        }
        for place, module in enumerate(self.structure.modules, self.structure.count):
            for count, products in self.kernels.modules.get(module.name, {}).items():
                self._products[place, float(count)] = products
        self._values: dict[tuple[int, Shares], float] = {}
        self.known: dict[tuple[int, Shares], float] = {}
        self._stacked = np.array([m.ravel() for m in self._products.values()], np.float64)
        self._behind = np.array([m.ravel() for m in self.kernels.behind])
        diagonal = np.eye(self.kernels.samples) / self.kernels.samples
        self.trace = self._sums(diagonal)

    @property
    def tolerance(self) -> float:
        """Differences below it are not looked for."""
        return TOLERANCE * self.kernels.samples

    def key(self, place: int, share: float) -> Key:
        """Key of a layer's share, or of as many channels of a module."""
        module = self.structure.module(place)
        return place, share if module is None else float(kept_channels(module, share))

    def gain(self, depth: int, shares: Shares) -> float:
        """Return what biases and weights learn together."""
        if (depth, shares) not in self._values:
            self._values[depth, shares] = self.kernels.learnable(self._of(depth, shares))
        return self._values[depth, shares]

    def look(self, depth: int, shares: Shares) -> float:
        """Return the gain of a scheme, and remember its tangent."""
        tangent = self.kernels.tangent(self._of(depth, shares))
        if tangent is not None:
            self.bounds.append(TangentBound(tangent, *self._sums(tangent.slope)))
        self.known[depth, shares] = found = self.gain(depth, shares)
        return found

    def _of(self, depth: int, shares: Shares) -> Array:
        total: Array = self.kernels.behind[depth].copy()
        for place, share in shares:
            total += self._products[self.key(place, share)]
        return total

    def _sums(self, slope: Array) -> tuple[Array, dict[Key, float]]:
        """Inner products of a matrix with those of biases, by depth, and of each weight."""
        weights = self._stacked @ slope.ravel()
        return self._behind @ slope.ravel(), dict(
            zip(self._products, weights.tolist(), strict=True)
        )


class JointSearch:
    """As mcutrain.selection.search.BestFirst, for what schemes learn together.

    bound: what no choice that is left gains more than, once there is a best one.
    """

    def __init__(
        self,
        choices: Mapping[int, Choices],
        limits: Limits,
        fixed: tuple[int, int],
        joint: Joint,
    ) -> None:
        self.solves = 0
        self.bound = float("-inf")
        self._joint = joint
        each = programs(choices, limits, fixed)
        self._bias_bits = [bias_bits for bias_bits, _ in each]
        self._problems = [problem for _, problem in each]
        self._columns = [_Columns(joint, problem) for problem in self._problems]
        self._found = self._that_fit(joint.known)

    def best(self) -> Contender | None:
        """A choice than which none that fits gains more by the tolerance; None: nothing fits."""
        slack = dict.fromkeys(range(len(self._problems)), np.inf)
        while slack:
            place = max(slack, key=lambda p: (slack[p], self._problems[p].depth.depth, -p))
            level = max(self._found.values(), default=-self._joint.tolerance)
            answer = self._above(place, level + self._joint.tolerance)
            if answer is None:
                del slack[place]
                continue
            chosen, most = answer
            slack[place] = min(slack[place], most)
            self._look(place, chosen)
        if not self._found:
            return None
        place, chosen = max(self._found, key=lambda found: self._found[found])
        gain = self._found[place, chosen]
        self.bound = gain + self._joint.tolerance
        return contender(self._problems[place], self._bias_bits[place], chosen, gain, place)

    def cut(self, candidate: Contender) -> None:
        """Forbid the choice that `best` returned."""
        place, chosen = candidate.place, candidate.chosen
        self._problems[place] = self._problems[place].without(chosen)
        del self._found[place, chosen]

    def _that_fit(
        self, known: Mapping[tuple[int, Shares], float]
    ) -> dict[tuple[int, Chosen], float]:
        """Schemes of earlier searches: under these limits, the search goes on from them."""
        found: dict[tuple[int, Chosen], float] = {}
        for place, problem in enumerate(self._problems):
            for (depth, shares), gain in known.items():
                chosen = problem.chosen(shares) if depth == problem.depth.depth else None
                if chosen is not None and problem.fits(chosen):
                    found[place, chosen] = gain
        return found

    def _look(self, place: int, chosen: Chosen) -> None:
        problem = self._problems[place]
        shares = tuple(sorted(p for o in problem.options(chosen) for p in o.shares))
        self._found[place, chosen] = self._joint.look(problem.depth.depth, shares)

    def _above(self, place: int, level: float) -> tuple[Chosen, float] | None:
        """A choice that may reach the level and was not looked at, and the most that any has
        left to spare in every bound; None if none may."""
        rows, least = self._columns[place].reaching(self._joint, level)
        problem = self._problems[place]
        for chosen in (c for p, c in self._found if p == place and self._found[p, c] < level):
            problem = problem.without(chosen)  # rounding must not bring it again
        self.solves += 1
        return problem.above(rows, least)


class _Columns:
    """Bounds as rows of one integer program, made once each."""

    def __init__(self, joint: Joint, problem: IntegerProgram) -> None:
        self._depth = problem.depth.depth
        self._keys = [[joint.key(*pair) for pair in o.shares] for o in problem.depth.options]
        self._trace = self._row(joint.trace[1])
        self._base_trace = float(joint.trace[0][self._depth])
        self._rows: list[tuple[Tangent, Array, float]] = []

    def _row(self, of: Mapping[Key, float]) -> Array:
        return np.array([sum(of[key] for key in keys) for keys in self._keys], np.float64)

    def reaching(self, joint: Joint, level: float) -> tuple[Array, Array]:
        """rows @ choice >= least, for every choice that reaches the level."""
        for bound in joint.bounds[len(self._rows) :]:
            base = float(bound.biases[self._depth])
            self._rows.append((bound.tangent, self._row(bound.weights), base))
        half = joint.kernels.disturbing_rate / 2
        rows = [-half * self._trace]
        least = [half * self._base_trace - (1 - LEAST_PACE)]
        for tangent, row, base in self._rows:
            wanted = level - tangent.offset
            if wanted <= 0:
                continue  # all that learns anything may
            # 1 / s >= 1 / s0 + (t - t0) * h / 2 / s0²
            steepness = half / tangent.pace**2
            lowest = 1 / tangent.pace + steepness * (self._base_trace - tangent.trace)
            rows.append(row - wanted * steepness * self._trace)
            least.append(wanted * lowest - base)
        return np.array(rows).reshape(len(rows), len(self._trace)), np.array(least)
