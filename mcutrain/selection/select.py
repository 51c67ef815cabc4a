"""Exact selection: the update scheme with the largest contribution that fits a device.

The expected gain of a scheme is bias[k] + sum of factor(bits) * weights[layer][share], over
layers within the bias depth k. Its memory at every step is a sum, too (mcutrain.selection.choices),
so the best scheme is the solution of an integer program. The program never overestimates what a
scheme takes; the scheme that it proposes is planned for real, and forbidden if it does not fit.
The first one that fits is therefore the best of all.

By the measure `joint` a scheme is worth what it learns as a whole, which is no sum
(mcutrain.selection.joint): the best is then best but for a small, known difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import AnalysisError, PlanError
from mcutrain.ir.graph import Graph
from mcutrain.selection.binding import binding_constraint, sum_of_gains
from mcutrain.selection.choices import Choices
from mcutrain.selection.contribution import Contributions, Gains, is_joint, with_importance
from mcutrain.selection.cost import BuildFunction, CostModel, Limits, Needs
from mcutrain.selection.cost_book import Progress
from mcutrain.selection.joint import Joint, JointSearch
from mcutrain.selection.option import Depth, Option
from mcutrain.selection.result import LayerChoice, ModuleChoice, Next, Selection, changes
from mcutrain.selection.search import BestFirst, Contender
from mcutrain.selection.units import Shares, Structure, kept_channels
from mcutrain.sparse.scheme import UpdateScheme

MOST_CUTS = 200
"""Schemes that are planned in vain before the limit is lowered and the optimum is given up."""
KIB = 1024
NEXT_KIB = tuple(2**i for i in range(11))
"""Larger budgets that are tried to say what more memory buys."""
LIMIT_NAMES = {"sram_bytes": "SRAM", "flash_bytes": "flash", "instructions": "instructions"}


@dataclass(frozen=True)
class BestScheme:
    """The best scheme within limits. gain: expected; bound: what none gains more than."""

    scheme: UpdateScheme
    gain: float
    bound: float
    measured: Needs
    limits: Limits


class Selector:
    """Costs the choices of one network once, then selects under any limits.

    measure: which gains are maximised; None is the analysis' first. costs: how schemes are
    costed and planned. progress: told how many costs are known, and of how many. by_gradient: the
    schemes name the channels' importance as the analysis has it; it changes no cost.
    """

    by_gradient = False

    def __init__(
        self,
        graph: Graph,
        contributions: Contributions,
        costs: CostModel,
        measure: str | None = None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        self.contributions, self.costs = contributions, costs
        self.measure = measure or next(iter(contributions.gains))
        self.factors = dict(contributions.residual_factor)
        gains = contributions.gain(self.measure)
        self.by_bias_bits = {
            bits: Choices(
                graph,
                gains,
                self.factors,
                costs.cost,
                _part(progress, i, len(costs.bias_bits)),
                bits,
                costs.layer_bits,
                costs.update_rule,
            )
            for i, bits in enumerate(costs.bias_bits)
        }
        self.choices = next(iter(self.by_bias_bits.values()))
        self.structure = self.choices.structure
        if len(contributions.layers) != self.structure.count:
            raise AnalysisError(
                f"the analysis has {len(contributions.layers)} layers, the model "
                f"{self.structure.count}; analyse this model"
            )
        _check_modules(gains, self.structure)
        self.joint = self._of_kernels()
        self._solves = self._cuts = 0

    def find(self, limits: Limits) -> BestScheme:
        """The best scheme, as it is planned, without what explains it. Raises PlanError as select.

        What says which limit binds takes as long as finding the scheme itself.
        """
        best, bound = self._best(limits)
        if best is None:
            raise self._too_small(limits)
        scheme = self._scheme(best)
        return BestScheme(scheme, best.gain, bound, self.costs.plan(scheme), limits)

    def select(self, limits: Limits, with_next: bool = True) -> Selection:
        """The best scheme. Raises PlanError with the least budget if nothing fits."""
        self._solves = self._cuts = 0
        best, bound = self._best(limits, self.costs.build)
        if best is None:
            raise self._too_small(limits)
        scheme = self._scheme(best)
        measured = (self.costs.build or self.costs.plan)(scheme)
        assert measured is not None
        measure = self.measure
        following = self._next(limits, best) if with_next else None
        binding = self._binding(limits, best)
        return Selection(
            scheme=scheme,
            measure=measure,
            head=self.contributions.head.get(measure, 0.0),
            gain=best.gain,
            bias_gain=self._bias_gain(best.depth),
            bound=bound,
            optimal=bound <= best.gain + self._least_gain and self._is_proof,
            is_bound=self._is_proof,
            layers=self._layers(best),
            modules=self._modules(best),
            measured=measured,
            limits=limits,
            free=_free(limits, measured),
            binding=binding,
            next=following,
            solves=self._solves,
            cuts=self._cuts,
        )

    def given(self, known: UpdateScheme, limits: Limits, bound: float) -> Selection | None:
        """A published scheme of layers and biases, with what it gains by this analysis.

        bound: what no scheme gains more than. None if it does not fit as it is planned and built.
        """
        shares = tuple(sorted((int(i), s) for i, s in known.weights.items() if s > 0))
        depth, bits = known.bias_depth or 0, known.residual_bits
        scheme = self.structure.scheme(depth, shares, bits, known.bias_bits)
        if self.by_gradient:
            scheme = with_importance(scheme, self.contributions)
        measured = (self.costs.build or self.costs.plan)(scheme)
        if measured is None or not fits(limits, measured):
            return None
        layers = tuple(self._given_layer(i, share, depth, shares, bits) for i, share in shares)
        bias_gain = self._bias_gain(depth)
        gain = (
            bias_gain + sum(layer.gain for layer in layers)
            if self.joint is None
            else self.joint.gain(depth, shares)
        )
        return Selection(
            scheme=scheme,
            measure=self.measure,
            head=self.contributions.head.get(self.measure, 0.0),
            gain=gain,
            bias_gain=bias_gain,
            bound=max(bound, gain),
            optimal=False,
            layers=layers,
            modules=(),
            measured=measured,
            limits=limits,
            free=_free(limits, measured),
            binding="",
            next=None,
            solves=0,
            cuts=0,
            published=known.name,
        )

    def _given_layer(
        self, i: int, share: float, depth: int, shares: Shares, bits: int
    ) -> LayerChoice:
        """A layer of a scheme that was not chosen: it may gain nothing, and is costed alone."""
        if self.joint is None:
            of_layer = self.choices.gains.weights.get(i, {})
            gain = self.factors.get(bits, 1.0) * of_layer.get(share, 0.0)
        else:
            rest = tuple(other for other in shares if other[0] != i)
            gain = self.joint.gain(depth, shares) - self.joint.gain(depth, rest)
        book, least, own = self.choices.book, self.structure.least_depth(i), ((i, share),)
        state = book.at(least, own, bits).state
        size = sum(state[name] for name in state.keys() - book.at(least).state.keys())
        return LayerChoice(i, self.structure.names[i], share, gain, size, bits)

    # ------------------------------------------------------------------ searching

    def _best(
        self, limits: Limits, build: BuildFunction | None = None
    ) -> tuple[Contender | None, float]:
        """The best scheme that fits when planned and built; what none can gain more than."""
        asked, bound = limits, float("-inf")
        while True:
            search = self._search(asked)
            excess = 0
            for _ in range(MOST_CUTS):
                best = search.best()
                if best is None:
                    break
                measured = self.costs.plan(self._scheme(best))
                if fits(limits, measured) and _builds(limits, self._scheme(best), build):
                    self._solves += search.solves
                    return best, max(bound, best.gain, search.bound)
                excess = max(excess, measured.sram_bytes - best.peak_bytes)
                self._cuts += 1
                search.cut(best)
            self._solves += search.solves
            if best is None:
                return None, bound
            bound = max(bound, best.gain, search.bound)
            assert asked.sram_bytes is not None or asked.flash_bytes is not None
            asked = _lowered(asked, excess)

    def _search(self, limits: Limits) -> BestFirst | JointSearch:
        if self.joint is not None:
            return JointSearch(self.by_bias_bits, limits, self._fixed, self.joint)
        return BestFirst(self.by_bias_bits, limits, self._fixed)

    def _of_kernels(self) -> Joint | None:
        """Return what schemes learn as a whole, if that is asked for."""
        kernels = self.contributions.kernels
        if not is_joint(self.measure) or kernels is None:
            return None
        return Joint(kernels, self.structure)

    @property
    def _is_proof(self) -> bool:
        """Whether what the sums exclude was excluded rightly."""
        return all(choices.is_bound for choices in self.by_bias_bits.values())

    @property
    def _fixed(self) -> tuple[int, int]:
        return self.costs.fixed_sram_bytes, self.costs.fixed_flash_bytes

    def _scheme(self, found: Contender) -> UpdateScheme:
        usual = self._bits(found)
        scheme = self.structure.scheme(found.depth, found.shares, usual, found.bias_bits)
        own = {str(i): bits for i, bits in self._layer_bits(found).items() if bits != usual}
        rate = self.contributions.module_rate if scheme.modules else None
        scheme = replace(scheme, layer_residual_bits=own, module_rate=rate)
        return with_importance(scheme, self.contributions) if self.by_gradient else scheme

    def _layer_bits(self, found: Contender) -> dict[int, int]:
        """Residual bits of each layer; those of modules are not chosen."""
        pairs = zip(found.shares, found.bits, strict=True)
        return {i: bits for (i, _), bits in pairs if self.structure.module(i) is None}

    def _bits(self, found: Contender) -> int:
        """Residual bits of most layers; where no weight but the head's is trained, the usual."""
        counts = Counter(self._layer_bits(found).values())
        most = max(counts.values(), default=0)
        return max((b for b in counts if counts[b] == most), default=UpdateScheme().residual_bits)

    # ------------------------------------------------------------------ explaining

    def _layers(self, best: Contender) -> tuple[LayerChoice, ...]:
        return tuple(
            LayerChoice(i, self.structure.names[i], share, gain, size, bits)
            for i, share, bits, gain, size in self._parts(best)
            if self.structure.module(i) is None
        )

    def _modules(self, best: Contender) -> tuple[ModuleChoice, ...]:
        return tuple(
            ModuleChoice(module.name, kept_channels(module, share), gain, size)
            for i, share, _, gain, size in self._parts(best)
            if (module := self.structure.module(i)) is not None
        )

    def _parts(self, best: Contender) -> Iterator[tuple[int, float, int, float, int]]:
        """Layer or module, its share, residual bits, gain and bytes of state, each as if alone.

        What all learn together is no sum of gains: then the gain is what is lost without it.
        """
        for (i, share), bits in zip(best.shares, best.bits, strict=True):
            one = ((i, share),)
            if self.joint is None:
                gain = self.choices.gain(one, bits)
            else:
                rest = tuple(other for other in best.shares if other != (i, share))
                gain = best.gain - self.joint.gain(best.depth, rest)
            yield i, share, bits, gain, self.choices.state_bytes(one, bits)

    def _bias_gain(self, depth: int) -> float:
        """Gain of the biases without weights."""
        return self.choices.gains.bias[depth] if self.joint is None else self.joint.gain(depth, ())

    def _binding(self, limits: Limits, best: Contender) -> str:
        """Return what stands in the way of gaining more."""
        if best.gain + self._least_gain >= self._largest_gain:
            return "nothing: all that has a gain is trained"
        steps = self.costs.cost(self._scheme(best)).steps
        choices = self.by_bias_bits[best.bias_bits]
        value = sum_of_gains if self.joint is None else self._joint_gain
        return binding_constraint(choices, limits, self._fixed, best, steps, value)

    def _joint_gain(self, depth: Depth, _: int, options: Sequence[Option]) -> float:
        assert self.joint is not None
        shares = tuple(sorted(pair for option in options for pair in option.shares))
        return self.joint.gain(depth.depth, shares)

    @cached_property
    def _largest_gain(self) -> float:
        """Without any limit."""
        if self.joint is not None:
            best = self._search(Limits()).best()
            return 0.0 if best is None else best.gain
        return max(
            d.gain + sum(max(max(o.gain.values()) for o in unit) for unit in d.units)
            for choices in self.by_bias_bits.values()
            for d in choices.depths
        )

    @property
    def _least_gain(self) -> float:
        """What counts as more; sums in another order differ by less."""
        if self.joint is not None:
            return self.joint.tolerance
        return 1e-9 * max(1e-9, *(abs(g) for g in self.choices.gains.bias))

    def _next(self, limits: Limits, best: Contender) -> Next | None:
        if limits.sram_bytes is None:
            return None
        if best.gain + self._least_gain >= self._largest_gain:
            return None
        for kib in NEXT_KIB:
            larger = replace(limits, sram_bytes=limits.sram_bytes + kib * KIB)
            found, _ = self._best(larger)
            if found is not None and found.gain > best.gain + self._least_gain:
                old, new = self._scheme(best), self._scheme(found)
                more = self.costs.plan(new).sram_bytes - limits.sram_bytes
                return Next(more, found.gain - best.gain, new, changes(old, new))
        return None

    def _too_small(self, limits: Limits) -> PlanError:
        """The head alone does not fit: by how much, and which step needs it."""
        least = self.costs.plan(self.structure.scheme(0, (), UpdateScheme().residual_bits))
        over = [
            f"{getattr(least, name):,} {'' if name == 'instructions' else 'bytes of '}"
            f"{LIMIT_NAMES[name]}, {getattr(least, name) - getattr(limits, name):,} more than the "
            f"limit of {getattr(limits, name):,}"
            for name in LIMIT_NAMES
            if getattr(limits, name) is not None and getattr(least, name) > getattr(limits, name)
        ]
        if not over:
            return PlanError("nothing can be trained: what fits as planned does not link")
        where = (
            f"; most memory is needed at step {least.peak_step}, {least.peak_node!r}, for which "
            "the least budget is the said one: take a smaller input or model"
            if limits.sram_bytes is not None and least.sram_bytes > limits.sram_bytes
            else ""
        )
        flash = limits.flash_bytes
        if flash is not None and 0 < least.flash_bytes - flash <= limits.slots_flash_bytes:
            where += (
                f"; --slots off leaves the program {flash + limits.slots_flash_bytes:,} bytes of "
                "flash, and a trained state does not survive a power cut then"
            )
        return PlanError(
            f"nothing can be trained: the head alone needs {' and '.join(over)}{where}"
        )


def _check_modules(gains: Gains, structure: Structure) -> None:
    """Raise AnalysisError for gains of modules that the model does not have so large."""
    channels = {module.name: module.channels for module in structure.modules}
    for name, by_count in gains.modules.items():
        if name not in channels or max(by_count, default=0) > channels[name]:
            raise AnalysisError(
                f"the analysis has the module {name!r} of {max(by_count, default=0)} channels, the "
                f"model {f'one of {channels[name]}' if name in channels else 'none of that name'}; "
                "analyse this model"
            )


def _part(progress: Progress, part: int, count: int) -> Progress:
    """Return the progress of one of `count` parts that take equally long."""
    return lambda done, total: progress(part * total + done, count * total)


def fits(limits: Limits, measured: Needs) -> bool:
    """Return whether a planned scheme keeps all limits."""
    return all(free >= 0 for free in _free(limits, measured).values())


def _builds(limits: Limits, scheme: UpdateScheme, build: BuildFunction | None) -> bool:
    """Return whether it also fits as a compiler makes it."""
    built = None if build is None else build(scheme)
    return build is None or (built is not None and fits(limits, built))


def _free(limits: Limits, measured: Needs) -> Mapping[str, int]:
    """Return what is left of each limit."""
    return {
        name: getattr(limits, name) - getattr(measured, name)
        for name in LIMIT_NAMES
        if getattr(limits, name) is not None
    }


def _lowered(limits: Limits, excess: int) -> Limits:
    """Lower SRAM by the excess, and flash a little: what was planned in vain is left out."""
    sram, flash = limits.sram_bytes, limits.flash_bytes
    return replace(
        limits,
        sram_bytes=None if sram is None else sram - max(excess, 8),
        flash_bytes=None if flash is None else flash - KIB,
    )
