"""What every choice of weights and modules costs and gains, on common steps, by bias depth."""

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
from mcutrain.selection.contribution import Gains
from mcutrain.selection.cost import CostFunction
from mcutrain.selection.cost_book import Added, CostBook, Progress, initial_bytes
from mcutrain.selection.option import OWN_BITS, Depth, Option
from mcutrain.selection.units import Shares, Structure, Unit, joined
from mcutrain.sparse.modules import FINE_BITS, PROJECTION
from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.update_rules import SGD

Array = npt.NDArray[Any]

MOST_COMBINATIONS = 150
"""Most combinations of shares in a unit that are costed one by one; larger units get a bound."""


class Choices:
    """Costs of all schemes of a network as sums, measured scheme by scheme.

    bits: the residual bits to choose from, with the factor on the gains of weights at them.
    per_layer: each layer has its own, else all have the same. bias_bits: of all biases. depths: by
    bias depth. exact: whether the sums are meant to be the truth; if not, they are at most that,
    which still proves an optimum. is_bound: whether they were found to be so where all modules are
    trained at once.
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
        update_rule: str = SGD,
    ) -> None:
        self.bias_bits, self.factors, self.per_layer = bias_bits, bits, per_layer
        self.structure = Structure.of(graph, update_rule)
        self.bits = tuple(sorted(set(bits), reverse=True))
        self.gains = gains
        self._gains = self._gains_by_share()
        self.book = CostBook(self.structure, cost, self.bits[0], progress, bias_bits)
        self.deepest = self._find_deepest()
        self._shares = self._find_shares()
        self._all_shares = sorted({s for shares in self._shares.values() for s in shares})
        self._cost_single()
        self._all_add_up = all(self._joint_adds_up(s) for s in self._all_shares)
        self._overlapping = self._find_overlapping()
        self.units = joined(len(self.structure.names), self._interacting())
        self.exact = True
        self._cost_units()
        self._shared = self._find_shared()
        self._options_at: dict[tuple[int, Shares], Option] = {}
        self._overlaps: dict[int, Added] = {}
        self.depths = self._all_depths()
        self.is_bound = all(self._is_below_joint(s) for s in self._all_shares)
        progress(len(self.book), len(self.book))

    @property
    def column_bits(self) -> tuple[int, ...]:
        """Bits by which the options' numbers are told."""
        return (OWN_BITS,) if self.per_layer else self.bits

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the timeline's steps."""
        return tuple(self.book.timeline.steps)

    def state_bytes(self, shares: Shares, bits: int) -> int:
        """Return what the weights keep between steps."""
        return sum(self._state_sizes(shares, bits).values())

    def gain(self, shares: Shares, bits: int) -> float:
        """Return what weights gain at these residual bits, and modules, whose bits are not chosen.

        A low-rank update moves its layer's weights along a few directions, the layer's own columns
        along others. What both can learn is largely the same, so only the larger gain counts.
        """
        gain = 0.0
        for part in self._parts(shares):
            factor = self.factors[bits] if self._is_free(part) else 1.0
            gain += factor * max(self._gains[place][share] for place, share in part)
        return gain

    def _gains_by_share(self) -> dict[int, dict[float, float]]:
        """Gains above 0 of layers and modules, by share."""
        found = {i: dict(self.gains.weights.get(i, {})) for i in range(self.structure.count)}
        for place, module in enumerate(self.structure.modules, self.structure.count):
            known = self.gains.modules.get(module.name, {})
            largest = max(module.channels, 1)
            found[place] = {(n or largest) / largest: gain for n, gain in known.items()}
        return {i: {s: g for s, g in by.items() if g > 0} for i, by in found.items()}

    def _low_rank_hosts(self, shares: Shares) -> frozenset[int]:
        """Layers that are trained beside the columns of their low-rank update."""
        taken = {i for i, _ in shares}
        return frozenset(
            self.structure.anchor[i]
            for i in taken
            if (module := self.structure.module(i)) is not None
            and PROJECTION in module.parts
            and self.structure.anchor[i] in taken
        )

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
        """Find the shares with a gain, by layer or module, if it can be trained."""
        found: dict[int, tuple[float, ...]] = {}
        for i, gains in self._gains.items():
            shares = tuple(sorted(gains))
            found[i] = shares
            depth = self.structure.least_depth(i)
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
        for i in self._shares:
            for group in self._depths_alike((i,)):
                ends = {group[0]} if self.structure.module(i) is None else {group[0], group[-1]}
                choices = self._combinations((i,), group[0])
                needed |= dict.fromkeys(product(sorted(ends), choices))
        for pair in self.structure.related:
            depth = self._common_depth(pair)
            needed |= dict.fromkeys((depth, s) for s in self._tests(pair))
        self.book.expected = len(needed) + len(self._all_shares) * len(self.bits)
        for share, bits in product(self._all_shares, self.bits):
            self.book.at(self.deepest, self._joint(share), bits)
        for share in self._all_shares:
            self.book.at(self.deepest, self._with_modules(share))
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
        for unit in self.units:
            count = int(np.prod([1 + len(self._shares[i]) for i in unit], dtype=np.int64))
            if count > MOST_COMBINATIONS:
                self.exact = False
            if len(unit) == 1 or count > MOST_COMBINATIONS:
                continue
            for group in self._depths_alike(unit):
                for shares in self._combinations(unit, group[0]):
                    self.book.at(group[0], shares)

    def _joint(self, share: float) -> Shares:
        """Every layer that may have it at one share."""
        return tuple((i, s) for i, s in self._everything(share) if self.structure.module(i) is None)

    def _everything(self, share: float) -> Shares:
        """Every layer and module that may have it at one share."""
        may = (i for i, s in self._shares.items() if share in s and self._may(i, self.deepest))
        return tuple((i, share) for i in may)

    def _with_modules(self, share: float) -> Shares:
        """Everything but layers with low-rank updates; nothing if there are no modules."""
        everything = self._everything(share)
        hosts = self._low_rank_hosts(everything)
        has_modules = any(self.structure.module(i) is not None for i, _ in everything)
        return tuple((i, s) for i, s in everything if i not in hosts) if has_modules else ()

    def _is_below_joint(self, share: float) -> bool:
        """Return whether sums with all modules are at most the truth."""
        shares = self._with_modules(share)
        if not shares:
            return True
        together = self.book.added(self.deepest, shares)
        parts = [self._least(self._costed_at((i,), self.deepest), ((i, s),)) for i, s in shares]
        total = Added.total(parts)
        return bool(
            total.state_bytes <= together.state_bytes
            and total.instructions <= together.instructions
            and (total.memory <= together.memory).all()
        )

    def _find_overlapping(self) -> tuple[Unit, ...]:
        """Pairs of a module and something else that need less together than the sum."""
        return tuple(
            pair
            for pair in self.structure.related
            if self.structure.module(pair[1]) is not None
            and any(
                not self.book.adds_up(self._common_depth(pair), shares)
                for shares in self._tests(pair)
            )
        )

    def _overlap(self, place: int) -> Added:
        """Bound how much less a module and others take together than the sum.

        Of a union of what lives at a step at least the sum is there, less what each two of them
        have in common (Bonferroni's inequality).
        """
        if place not in self._overlaps:
            found = [self._common(pair) for pair in self._overlapping if pair[1] == place]
            nothing = Added(np.zeros(len(self.steps), np.int64), 0, 0)
            self._overlaps[place] = Added.total([nothing, *found])
        return self._overlaps[place]

    def _common(self, pair: Unit) -> Added:
        """The most that two of them have in common, at any of the shares that are tried."""
        depth = self._common_depth(pair)
        less = []
        for shares in self._tests(pair):
            total = Added.total(self.book.added(depth, (one,)) for one in shares)
            together = self.book.added(depth, shares)
            less.append(
                Added(
                    np.maximum(total.memory - together.memory, 0),
                    max(total.state_bytes - together.state_bytes, 0),
                    max(total.instructions - together.instructions, 0),
                )
            )
        return Added(
            np.max([one.memory for one in less], axis=0),
            max(one.state_bytes for one in less),
            max(one.instructions for one in less),
        )

    def _least(self, depth: int, shares: Shares) -> Added:
        """Return what they add at least, whatever else is trained."""
        modules = [place for place, _ in shares if self.structure.module(place) is not None]
        if not modules:
            return self.book.added(depth, shares)
        less = [self.book.unnamed(depth, shares), *(self._overlap(place) for place in modules)]
        ends = (depth, self._deepest_alike(tuple(i for i, _ in shares), depth))
        added = Added.least([self.book.added(end, shares) for end in ends])
        return Added.total([added, *(one.times(-1) for one in less)])

    def _deepest_alike(self, unit: Unit, depth: int) -> int:
        """The largest bias depth at which the unit should cost what it does at this one.

        What lives across the steps of other modules is more where the gradient ends just there.
        """
        return next((g[-1] for g in self._depths_alike(unit) if depth in g), depth)

    def _may(self, place: int, depth: int) -> bool:
        """Return whether a layer or module can be trained at this bias depth."""
        return self.structure.least_depth(place) <= depth

    def _is_low_rank(self, place: int) -> bool:
        module = self.structure.module(place)
        return module is not None and PROJECTION in module.parts

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
        each = [(None, *(self._shares[i] if self._may(i, depth) else ())) for i in unit]
        found = [
            tuple((i, share) for i, share in zip(unit, chosen, strict=True) if share is not None)
            for chosen in product(*each)
        ]
        return [shares for shares in found if shares]

    def _extremes(self, unit: Unit, depth: int) -> list[Shares]:
        """The smallest and the largest choice for all layers of a unit at once."""
        layers = [i for i in unit if self._may(i, depth) and self._shares[i]]
        ends = {tuple((i, self._shares[i][end]) for i in layers) for end in (0, -1)}
        return sorted(shares for shares in ends if shares)

    def _common_depth(self, pair: Unit) -> int:
        """A depth at which both may be trained, and want a gradient if that is possible."""
        ancestors = [a for a in (self.structure.ancestor[i] for i in pair) if a >= 0]
        anchors = [self.structure.anchor[i] for i in pair]
        return min(self.structure.count - min([*anchors, *ancestors]), self.deepest)

    def _tests(self, pair: Unit) -> list[Shares]:
        """Both layers at their smallest and largest shares."""
        if not all(self._may(i, self.deepest) for i in pair):
            return []
        ends = [sorted({*self._shares[i][:1], *self._shares[i][-1:]}) for i in pair]
        return [tuple(zip(pair, chosen, strict=True)) for chosen in product(*ends)]

    def _interacting(self) -> list[Unit]:
        """Pairs that read the same tensor, or whose costs were found not to add up."""
        found = [p for p in self.structure.same if all(self._shares[i] for i in p)]
        for pair in self.structure.related:
            if self.structure.module(pair[1]) is not None:
                continue  # sums are lowered by what they have in common
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
            self._overlaps.clear()
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
        parts = self._parts(shares)
        for bits in product(*(self.bits if self._is_free(part) else (usual,) for part in parts)):
            gain, state, flash = 0.0, option.state[usual], option.flash[usual]
            instructions = option.instructions[usual]
            for part, b in zip(parts, bits, strict=True):
                sizes, before = (self._state_sizes(part, n) for n in (b, usual))
                gain += self.gain(part, b)
                state += sum(sizes.values()) - sum(before.values())
                flash += initial_bytes(sizes) - initial_bytes(before)
                instructions += self._more_work(part, b) - self._more_work(part, usual)
            chosen = {p[0][0]: b for p, b in zip(parts, bits, strict=True) if self._is_free(p)}
            yield replace(
                option,
                gain={OWN_BITS: gain},
                state={OWN_BITS: state},
                flash={OWN_BITS: flash},
                instructions={OWN_BITS: instructions},
                bits=tuple(chosen.get(i, FINE_BITS) for i, _ in shares),
            )

    def _option(self, depth: int, shares: Shares) -> Option:
        if (depth, shares) not in self._options_at:
            self._options_at[depth, shares] = self._costed_option(depth, shares)
        return self._options_at[depth, shares]

    def _costed_option(self, depth: int, shares: Shares) -> Option:
        added = self._least(depth, shares)
        less = self.book.added(depth, shares).state_bytes - added.state_bytes
        sizes = {b: self._state_sizes(shares, b) for b in self.bits}
        flash = self.book.flash_added(depth, shares, self._shared)
        initial = {b: initial_bytes(s) for b, s in sizes.items()}
        return Option(
            shares,
            {b: self.gain(shares, b) for b in self.bits},
            added.memory,
            {b: sum(s.values()) - less for b, s in sizes.items()},
            {b: flash - initial[self.bits[0]] + initial[b] for b in self.bits},
            {b: added.instructions + self._more_work(shares, b) for b in self.bits},
            self.book.flash_shared(depth, shares, self._shared),
        )

    def _state_sizes(self, shares: Shares, bits: int) -> dict[str, int]:
        """Bytes of every state tensor that the weights bring, with other residual bits."""
        found: dict[str, int] = {}
        for part in self._parts(shares):
            depth = max(self.structure.least_depth(i) for i, _ in part)
            names = self.book.state_names(depth, part)
            sizes = self.book.at(depth, part).state
            if self._is_free(part):
                sizes = self.book.at(self.deepest, self._joint(part[0][1]), bits).state
            found |= {name: sizes[name] for name in names if name in sizes}
        return found

    def _parts(self, shares: Shares) -> list[Shares]:
        """Layers and modules one by one, but a layer together with its low-rank update."""
        hosts = self._low_rank_hosts(shares)
        found: dict[int, list[tuple[int, float]]] = {}
        for i, share in shares:
            anchor = self.structure.anchor[i]
            together = self._is_low_rank(i) and anchor in hosts
            found.setdefault(anchor if together else i, []).append((i, share))
        return [tuple(part) for part in found.values()]

    def _is_free(self, part: Shares) -> bool:
        """Whether residual bits are chosen for it: a module has its own, and what is beside it."""
        return len(part) == 1 and self.structure.module(part[0][0]) is None

    def _more_work(self, shares: Shares, bits: int) -> int:
        """Instructions of the layers' own nodes over those at the residual bits of the book."""
        more = 0
        for part in filter(self._is_free, self._parts(shares)):
            ((layer, share),) = part
            depth = self.structure.least_depth(layer)
            own = self.book.at(depth, part).work.keys() - self.book.at(depth).work
            joint = self._joint(share)
            usual = self.book.at(self.deepest, joint).work
            work = self.book.at(self.deepest, joint, bits).work
            more += sum(work[name] - usual[name] for name in own if name in work)
        return more

    def _find_shared(self) -> frozenset[Hashable]:
        """Parts of flash that a bias or more than one layer may bring: who pays is not known."""
        brought: Counter[Hashable] = Counter()
        biases = frozenset().union(*(self.book.flash_keys(d) for d in range(self.deepest + 1)))
        for layer in range(len(self.structure.names)):
            if not self._may(layer, self.deepest):
                continue
            depth = self.structure.least_depth(layer)
            options = [self.book.flash_keys(depth, s) for s in self._combinations((layer,), depth)]
            brought.update(frozenset().union(*options) - self.book.flash_keys(depth))
        return biases.union(key for key, count in brought.items() if count > 1)
