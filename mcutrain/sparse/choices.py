"""What every choice of weights costs and gains, on common steps, for every bias depth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import SchemeError, UnsupportedError
from mcutrain.ir.graph import Graph
from mcutrain.sparse.contribution import Gains
from mcutrain.sparse.cost import CostFunction
from mcutrain.sparse.cost_book import Added, CostBook, Progress, Shares, initial_bytes
from mcutrain.sparse.option import OWN_BITS, Depth, Option
from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.sparse.units import Structure, Unit, joined

Array = npt.NDArray[Any]

MOST_COMBINATIONS = 150
"""Of shares within a unit that are costed one by one; larger units get a bound instead."""


class Choices:
    """Costs of all schemes of a network as sums, measured scheme by scheme.

    bits: the residual bits to choose from, with the factor on the gains of weights at them.
    per_layer: each layer has its own, else all have the same. bias_bits: of all biases. depths: by
    bias depth. exact: whether the sums are meant to be the truth; if not, they are at most that,
    which still proves an optimum.
    """

    def __init__(
        self,
        graph: Graph,
        gains: Gains,
        bits: Mapping[int, float],
        cost: CostFunction,
        progress: Progress = lambda done, total: None,
        bias_bits: int = UpdateScheme.bias_bits,
        per_layer: bool = False,
    ) -> None:
        self.bias_bits, self.factors, self.per_layer = bias_bits, bits, per_layer
        self.structure = Structure.of(graph)
        self.bits = tuple(sorted(set(bits), reverse=True))
        self.gains = gains
        self.book = CostBook(cost, self.bits[0], progress, bias_bits)
        self.deepest = self._find_deepest()
        self._shares = self._find_shares()
        self._all_shares = sorted({s for shares in self._shares.values() for s in shares})
        self._cost_single()
        self._all_add_up = all(self._joint_adds_up(s) for s in self._all_shares)
        self.units = joined(self.structure.count, self._interacting())
        self.exact = True
        self._cost_units()
        self._shared = self._find_shared()
        self._options_at: dict[tuple[int, Shares], Option] = {}
        self.depths = self._all_depths()
        progress(len(self.book), len(self.book))

    @property
    def column_bits(self) -> tuple[int, ...]:
        """By what the options' numbers are."""
        return (OWN_BITS,) if self.per_layer else self.bits

    @property
    def column_factors(self) -> Mapping[int, float]:
        """On the options' gains, by the same."""
        return {OWN_BITS: 1.0} if self.per_layer else self.factors

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the timeline's steps."""
        return tuple(self.book.timeline.steps)

    def state_bytes(self, shares: Shares, bits: int) -> int:
        """What the weights keep between steps."""
        return sum(self._state_sizes(shares, bits).values())

    # ------------------------------------------------------------------ what is costed

    def _find_deepest(self) -> int:
        """The largest bias depth that was analysed and has a gradient."""
        for depth in range(min(self.structure.count, len(self.gains.bias) - 1), 0, -1):
            try:
                self.book.at(depth)
            except (SchemeError, UnsupportedError):
                continue
            return depth
        return 0

    def _find_shares(self) -> dict[int, tuple[float, ...]]:
        """By layer those with a gain, if the layer can be trained."""
        found: dict[int, tuple[float, ...]] = {}
        for i in range(self.structure.count):
            gains = self.gains.weights.get(i, {})
            shares = tuple(sorted(share for share, gain in gains.items() if gain > 0))
            found[i] = shares
            depth = self.structure.count - i
            try:
                if shares and depth <= self.deepest:
                    self.book.at(depth, ((i, shares[0]),))
            except (SchemeError, UnsupportedError):  # its weight is another layer's, too
                found[i] = ()
        return found

    def _cost_single(self) -> None:
        """The biases alone, each layer's shares, and pairs that might interact."""
        needed: dict[tuple[int, Shares], None] = {}
        for depth in range(self.deepest + 1):
            needed[depth, ()] = None
        for i in range(self.structure.count):
            for group in self._depths_alike((i,)):
                needed |= dict.fromkeys((group[0], s) for s in self._combinations((i,), group[0]))
        for pair in self.structure.related:
            depth = self._common_depth(pair)
            needed |= dict.fromkeys((depth, s) for s in self._tests(pair))
        self.book.expected = len(needed) + len(self._all_shares) * len(self.bits)
        for share, bits in product(self._all_shares, self.bits):
            self.book.at(self.deepest, self._joint(share), bits)
        for depth, choice in needed:
            self.book.at(depth, choice)

    def _joint_adds_up(self, share: float) -> bool:
        """Whether all layers at once, with all biases, add what each adds where it was costed."""
        joint = self._joint(share)
        together = self.book.added(self.deepest, joint)
        measured = [(self._costed_at((i,), self.deepest), ((i, share),)) for i, _ in joint]
        return together.equals(Added.total(self.book.added(*key) for key in measured))

    def _costed_at(self, unit: Unit, depth: int) -> int:
        """The least depth at which the unit should cost what it does at this one."""
        return next((g[0] for g in self._depths_alike(unit) if depth in g), -1)

    def _cost_units(self) -> None:
        """Every combination within the units of several layers; too large ones fall apart."""
        units: list[Unit] = []
        for unit in self.units:
            count = int(np.prod([1 + len(self._shares[i]) for i in unit], dtype=np.int64))
            if count > MOST_COMBINATIONS:
                self.exact = False
            units.append(unit)
            if len(unit) == 1 or count > MOST_COMBINATIONS:
                continue
            for group in self._depths_alike(unit):
                for shares in self._combinations(unit, group[0]):
                    self.book.at(group[0], shares)

    def _joint(self, share: float) -> Shares:
        """Every layer that may have it at one share."""
        first = self.structure.count - self.deepest
        return tuple((i, share) for i, s in self._shares.items() if share in s and i >= first)

    def _depths_alike(self, unit: Unit) -> list[list[int]]:
        """Depths at which a layer of the unit may be trained, by what the unit costs there."""
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for depth in range(self.deepest + 1):
            signature = self.structure.signature(unit, depth)
            if any(allowed for allowed, _ in signature):
                groups[signature].append(depth)
        return list(groups.values())

    def _combinations(self, unit: Unit, depth: int) -> list[Shares]:
        """All choices for a unit but the empty one."""
        first = self.structure.count - depth
        each = [(None, *(self._shares[i] if i >= first else ())) for i in unit]
        found = [
            tuple((i, share) for i, share in zip(unit, chosen, strict=True) if share is not None)
            for chosen in product(*each)
        ]
        return [shares for shares in found if shares]

    def _extremes(self, unit: Unit, depth: int) -> list[Shares]:
        """The smallest and the largest choice for all layers of a unit at once."""
        first = self.structure.count - depth
        layers = [i for i in unit if i >= first and self._shares[i]]
        ends = {tuple((i, self._shares[i][end]) for i in layers) for end in (0, -1)}
        return sorted(shares for shares in ends if shares)

    def _common_depth(self, pair: Unit) -> int:
        """A depth at which both may be trained, and want a gradient if that is possible."""
        ancestors = [a for a in (self.structure.ancestor[i] for i in pair) if a >= 0]
        return min(self.structure.count - min([pair[0], *ancestors]), self.deepest)

    def _tests(self, pair: Unit) -> list[Shares]:
        """Both layers at their smallest and largest shares."""
        if pair[0] < self.structure.count - self.deepest:
            return []
        ends = [sorted({*self._shares[i][:1], *self._shares[i][-1:]}) for i in pair]
        return [tuple(zip(pair, chosen, strict=True)) for chosen in product(*ends)]

    def _interacting(self) -> list[Unit]:
        """Pairs that read the same tensor, or whose costs were found not to add up."""
        found = [p for p in self.structure.same if all(self._shares[i] for i in p)]
        for pair in self.structure.related:
            depth = self._common_depth(pair)
            if any(not self.book.adds_up(depth, shares) for shares in self._tests(pair)):
                found.append(pair)
        return found

    # ------------------------------------------------------------------ differences

    def _all_depths(self) -> tuple[Depth, ...]:
        """All choices for every bias depth; again if another cost has changed the timeline."""
        while True:
            timeline = self.book.timeline
            self._options_at.clear()
            depths = tuple(self._depth(k) for k in range(self.deepest + 1))
            if self.book.timeline is timeline:
                return depths

    def _depth(self, depth: int) -> Depth:
        base = self.book.at(depth)
        units = [u for unit in self.units for u in self._options(unit, depth)]
        return Depth(
            depth,
            self.gains.bias[depth],
            self.book.memory(depth),
            sum(base.state.values()),
            sum(part.size_bytes for part in base.flash.values()),
            base.instructions,
            frozenset(base.flash),
            tuple(options for options in units if options),
        )

    def _options(self, unit: Unit, depth: int) -> list[tuple[Option, ...]]:
        """The options of a unit, or of its layers one by one if there are too many."""
        count = int(np.prod([1 + len(self._shares[i]) for i in unit], dtype=np.int64))
        if count > MOST_COMBINATIONS:
            return [o for i in unit for o in self._part_of(i, len(unit), depth)]
        measured = self._costed_at(unit, depth)
        if measured < 0:
            return []
        if not self._all_add_up and not all(
            self.book.same(measured, depth, s) for s in self._extremes(unit, measured)
        ):
            measured = depth  # the depth matters in a way that the structure does not tell
        shares = self._combinations(unit, measured)
        return [tuple(o for chosen in shares for o in self._of_bits(measured, chosen))]

    def _part_of(self, layer: int, count: int, depth: int) -> list[tuple[Option, ...]]:
        """Options of one of `count` interacting layers, at most as costly as they are.

        All together take at least what the most expensive takes alone, hence at least the mean.
        """
        return [
            tuple(
                Option(
                    option.shares,
                    option.gain,
                    option.memory // count,
                    option.state,
                    {b: min(size, 0) for b, size in option.flash.items()},
                    {b: number // count for b, number in option.instructions.items()},
                    {},
                    option.bits,
                )
                for option in options
            )
            for options in self._options((layer,), depth)
        ]

    def _of_bits(self, depth: int, shares: Shares) -> Iterator[Option]:
        """The choice; once for all bits, or for each choice of bits of its layers."""
        option = self._option(depth, shares)
        if not self.per_layer:
            yield option
            return
        usual = self.bits[0]
        for bits in product(self.bits, repeat=len(shares)):
            gain, state, flash = 0.0, 0, option.flash[usual]
            instructions = option.instructions[usual]
            for (layer, share), b in zip(shares, bits, strict=True):
                own = ((layer, share),)
                sizes, before = (self._state_sizes(own, n) for n in (b, usual))
                gain += self.factors[b] * self.gains.weights[layer][share]
                state += sum(sizes.values())
                flash += initial_bytes(sizes) - initial_bytes(before)
                instructions += self._more_work(own, b) - self._more_work(own, usual)
            yield replace(
                option,
                gain=gain,
                state={OWN_BITS: state},
                flash={OWN_BITS: flash},
                instructions={OWN_BITS: instructions},
                bits=bits,
            )

    def _option(self, depth: int, shares: Shares) -> Option:
        if (depth, shares) not in self._options_at:
            self._options_at[depth, shares] = self._costed_option(depth, shares)
        return self._options_at[depth, shares]

    def _costed_option(self, depth: int, shares: Shares) -> Option:
        added = self.book.added(depth, shares)
        sizes = {b: self._state_sizes(shares, b) for b in self.bits}
        flash = self.book.flash_added(depth, shares, self._shared)
        initial = {b: initial_bytes(s) for b, s in sizes.items()}
        gain = sum(self.gains.weights[i][share] for i, share in shares)
        return Option(
            shares,
            gain,
            added.memory,
            {b: sum(s.values()) for b, s in sizes.items()},
            {b: flash - initial[self.bits[0]] + initial[b] for b in self.bits},
            {b: added.instructions + self._more_work(shares, b) for b in self.bits},
            self.book.flash_shared(depth, shares, self._shared),
        )

    def _state_sizes(self, shares: Shares, bits: int) -> dict[str, int]:
        """Bytes of every state tensor that the weights bring, with other residual bits."""
        found: dict[str, int] = {}
        for layer, share in shares:
            names = self.book.state_names(self.structure.count - layer, ((layer, share),))
            joint = self.book.at(self.deepest, self._joint(share), bits).state
            found |= {name: joint[name] for name in names if name in joint}
        return found

    def _more_work(self, shares: Shares, bits: int) -> int:
        """Instructions of the layers' own nodes over those at the residual bits of the book."""
        more = 0
        for layer, share in shares:
            depth = self.structure.count - layer
            own = self.book.at(depth, ((layer, share),)).work.keys() - self.book.at(depth).work
            joint = self._joint(share)
            usual = self.book.at(self.deepest, joint).work
            work = self.book.at(self.deepest, joint, bits).work
            more += sum(work[name] - usual[name] for name in own if name in work)
        return more

    def _find_shared(self) -> frozenset[Hashable]:
        """Parts of flash that a bias or more than one layer may bring: who pays is not known."""
        brought: Counter[Hashable] = Counter()
        biases = frozenset().union(*(self.book.flash_keys(d) for d in range(self.deepest + 1)))
        for layer in range(self.structure.count - self.deepest, self.structure.count):
            depth = self.structure.count - layer
            options = [self.book.flash_keys(depth, s) for s in self._combinations((layer,), depth)]
            brought.update(frozenset().union(*options) - self.book.flash_keys(depth))
        return biases.union(key for key, count in brought.items() if count > 1)
