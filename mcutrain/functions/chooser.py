"""The scheme that a memory asks for: all that fits, or what `select` finds best from gradients.

Samples that the model does not take are refused first. Of those that it takes, only training
samples are looked at. Where everything fits, short runs say how many of the last layers learn best,
which may be all. Where it does not, gradients of some samples say what is worth its bytes. What was
found is kept by content: the next command with this model, data and memory finds it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host import cache
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import CacheError

from mcutrain.analysis.dimension import (
    COSINE_MOMENTS,
    effective_dimension,
    learnable,
    product_gains,
)
from mcutrain.analysis.gradient import GradientSettings, by_gradient, least_biases
from mcutrain.analysis.problem import Problem, held_out
from mcutrain.arguments import EPOCHS
from mcutrain.cost.kept import code_digest, sources
from mcutrain.cost.schemes import cost_model
from mcutrain.data import Normalization, Split
from mcutrain.errors import (
    AnalysisError,
    BuildError,
    DataError,
    McutrainError,
    PlanError,
    SchemeError,
    UnsupportedError,
)
from mcutrain.experiments.contest import Contest
from mcutrain.experiments.contest import contest as run_contest
from mcutrain.functions.alternatives import Alternative, AutoScheme, Report
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.preparing import HEAD
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep, with_head
from mcutrain.quant import replace_head
from mcutrain.runs.sample_reading import samples_of
from mcutrain.selection.contribution import JOINT, Contributions, contributions_of
from mcutrain.selection.cost import CostModel
from mcutrain.selection.fitting import fitting, least_sram_bytes
from mcutrain.selection.select import BestScheme, Selector
from mcutrain.simulation import RunSettings
from mcutrain.simulation.range_test import OutOfTime
from mcutrain.simulation.samples import content_of
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme

Array = npt.NDArray[Any]
LEARNABLE = "learnable"
"""Ranks smaller schemes: it takes a tenth of the time of joint, by which the scheme is chosen."""
JOINT_SHARE = 0.5
"""joint is asked at this share of the rate that the analysis assumes. Of 1, 1/2 and 1/4 it chose
the schemes that learnt most on CIFAR-10, and is within the error of the others on Caltech-101
(docs/measurements/selection.md)."""
NEXT_PART = 8
"""What the next bytes would buy is asked of one part in so many of the memory."""
HEAD_RATES = (0.05, 0.0125, 0.003, 0.0008)
"""The head that gradients come through is trained at the best of these."""
OVERSHOOT = 3.5
"""Half of rate times mean squared gradient of the last half of the layers, at the rate that the
analysis assumes: one that trials find for these layers, without the trials (see
mcutrain.analysis.dimension: at 1, steps of all of them together would overshoot)."""
MOST_RATE = 0.03
"""Small networks have small gradients, and yet learn at no larger rate."""
GRADIENT_SAMPLES = 128
"""Inner products are taken of no more."""
TESTS = 200
"""Samples that tell whether the head has learnt enough for gradients to mean something."""
MOST_REPEATS = 3
"""Selections with a lower limit, where what was selected takes more as it is really planned."""
SHARES = (0, 0.25, 0.5, 1)
"""Shares of the layers before the head, from the end, that are tried where everything fits."""
TRYING = "trying schemes"
NO_TIME = "there is no time to compare it with others"
AS_MUCH = 1.0
"""A smaller scheme is named that reaches this share of what the chosen one does, by gradients.

It is a rough guess: on the images of the demo's sensor, where the chosen one adds 11.7 points to
the head, schemes with 0.96, 0.996 and 1.03 of it were 3.6, 2.6 and 2.1 points worse
(benchmarks/default_scheme.py)."""
UNMEASURABLE = (AnalysisError, BuildError, DataError, SchemeError, UnsupportedError)
"""What says that gradients cannot be had, of this model, of this data, or on this computer."""
MOST_STEPS = 4
"""Planned steps that are remembered: a scheme that fits is looked at again at once."""
Plan = Callable[[UpdateScheme], TrainingStep]
"""The step of a scheme, with all else that was asked for."""
Analysis = Callable[[], Contributions]
"""Returns the analysis of the training samples, or raises one of UNMEASURABLE."""
RunContest = Callable[[Mapping[str, TrainingStep]], Contest | None]
"""Returns how short runs of steps ended, if they say anything."""


@dataclass(frozen=True)
class Chooser:
    """Chooses a scheme of a model for a memory.

    graph: the model; classes: of a new head, None keeps its own. plan: plans a step with all else
    that was asked for; options: the same, as far as costs depend on it. bits: every scheme has the
    residual bits, the bits of biases and the update rule of this one. report: of what takes long.
    epochs: of the run.
    """

    graph: Graph
    classes: int | None
    memory: MemoryLimit
    plan: Plan
    options: StepOptions = StepOptions()
    bits: UpdateScheme = UpdateScheme()
    report: Report = lambda what, done, of: None
    epochs: int = EPOCHS

    def choose(self, split: Split, normalization: Normalization | None = None) -> AutoScheme:
        """The scheme. split: only its training and validation samples are looked at.

        Raises PlanError if not even the head fits the board or the budget. Where neither is known,
        the head is trained whatever it takes.
        """
        self._check(split, normalization)
        analysis = partial(self._analysis, split, normalization)
        return self._choose(analysis, partial(self._contest, split, normalization))

    def compared(self, split: Split, normalization: Normalization | None = None) -> AutoScheme:
        """What `choose` finds, with a smaller and a larger scheme, and what these learn of it.

        split, normalization: as `choose` has them. Raises PlanError as it does.
        """
        self._check(split, normalization)
        analysis = lru_cache(maxsize=1)(partial(self._analysis, split, normalization))
        found = self._choose(analysis, partial(self._contest, split, normalization))
        return self._compare(found, analysis)

    def _check(self, split: Split, normalization: Normalization | None) -> None:
        """Raise DataError for samples that the model does not take: the first of each part says."""
        first = split.each(lambda part: part.take(np.arange(min(len(part), 1))))
        samples_of(self.least, first, RunSettings(epochs=self.epochs), normalization)

    def _choose(self, analysis: Analysis, contest: RunContest) -> AutoScheme:
        """See `choose`. analysis: is asked for only where not everything fits, contest where it
        does."""
        head = self.least
        if not self.memory.fits(head):
            if not self.memory.is_usual:
                raise self._too_small(head)
            return self._chosen(HEAD, f"even the head takes more than {self.memory.name}", head)
        if self.layers == 0:
            return self._chosen(HEAD, "the model has no layer before its classifier", head)
        full = self._fitting("full")
        if full is not None:
            return self._of_those_that_fit(full, contest)
        try:
            try:
                measured = analysis()
            except UNMEASURABLE as error:
                return self._largest(f"gradients cannot be measured: {error}")
            try:
                return self._selected(measured)
            except (SchemeError, UnsupportedError) as error:
                return self._largest(f"none can be selected: {error}")
        except OutOfTime:
            return self._largest(NO_TIME)

    def _of_those_that_fit(self, full: TrainingStep, contest: RunContest) -> AutoScheme:
        """Everything, or fewer layers that end short runs better. full: the step of everything."""
        fits = f"all of it fits in {self.memory.name}"
        names = dict.fromkeys(self._last(math.ceil(share * self.layers)) for share in SHARES)
        steps = {name: self._planned(name) for name in names}
        tried = {name: step for name, step in steps.items() if step is not None}
        is_fixed = not full.plan.training.elastic
        ended = contest({**tried, "full": full}) if is_fixed and len(tried) > 1 else None
        if ended is None:
            return self._chosen("full", fits, full)
        if not ended.steps:
            return self._chosen(ended.best, f"{fits}; {NO_TIME}", tried[ended.best])
        *others, last = tried
        reason = (
            f"{fits}, and of {', '.join(others)} and {last} it ends runs of {ended.steps:,} steps "
            "with the least loss of training samples that are held out"
        )
        reason += "; there is no time for longer ones" if ended.is_cut else ""
        return self._chosen(ended.best, reason, tried[ended.best])

    def _contest(
        self, split: Split, normalization: Normalization | None, steps: Mapping[str, TrainingStep]
    ) -> Contest | None:
        """How short runs of the schemes end, from the cache or made; None if that says nothing."""
        parts = (split.train, split.validation) if split.validation else (split.train,)
        facts = (
            graph_digest(self.headed),
            [hashlib.sha256(content_of(part)).hexdigest() for part in parts],
            None if normalization is None else asdict(normalization),
            [
                (name, s.project.model_hash, s.plan.training.start, s.plan.training.accumulate)
                for name, s in steps.items()
            ],
            self.epochs,
        )
        path = _kept("contest", facts)
        with suppress(ValueError, TypeError):
            return Contest(**json.loads(cache.read(path) or b""))
        try:
            report = partial(self.report, TRYING)
            found = run_contest(steps, split, normalization, report=report, epochs=self.epochs)
        except UNMEASURABLE:
            return None
        if found is not None and not found.is_cut:
            with suppress(CacheError):
                cache.write(path, json.dumps(asdict(found)).encode())
        return found

    def _compare(self, choice: AutoScheme, analysis: Analysis) -> AutoScheme:
        """See `compared`. choice: what was chosen."""
        if choice.larger is None:
            with suppress(McutrainError):
                choice = replace(choice, larger=self.larger(choice.sram_bytes))
        if self.memory.sram_bytes is None or choice.scheme == HEAD:
            return choice
        if self.memory.is_usual:
            choice = replace(choice, smaller=self.head())
        try:
            measured = analysis()
            below = list(self._smaller(measured, choice))
        except UNMEASURABLE:
            return choice
        whole = _reachable(measured, choice.scheme)
        if whole == 0:
            return choice

        def with_share(one: Alternative) -> Alternative:
            return replace(one, share=_reachable(measured, one.scheme) / whole)

        larger = None if choice.larger is None else with_share(choice.larger)
        each = [with_share(one) for one in below]
        near = [one for one in each if (one.share or 0) >= AS_MUCH]
        smaller = min(near, key=lambda one: one.sram_bytes, default=choice.smaller)
        if not near and each and self.memory.is_usual:
            smaller = each[0]
        return replace(choice, larger=larger, smaller=smaller)

    def kept_larger(self, used_bytes: int, *beside: object) -> Alternative | None:
        """What `larger` finds, from the cache or found now. beside: what else plans depend on."""
        options = replace(self.options, class_names=())  # no plan depends on them
        needs = (self.classes, self.memory, options, self.bits, used_bytes, beside)
        path = _kept("larger", (graph_digest(self.graph), repr(needs)))
        with suppress(ValueError, TypeError):
            known = json.loads(cache.read(path) or b"")
            return None if known is None else Alternative(**known)
        found = self.larger(used_bytes)
        with suppress(CacheError):
            cache.write(path, json.dumps(found and asdict(found)).encode())
        return found

    def larger(self, used_bytes: int) -> Alternative | None:
        """A scheme that takes more bytes than these, the most layers from the end that fit.

        Where no whole layer does, the most biases; where these do not, the least that does not fit.
        None where nothing takes more.
        """
        most = self._most(self._last)
        for text in self._most_texts(most):
            step = self._planned(text)
            if step is not None and (needs := self.memory.needs(step)) > used_bytes:
                return Alternative(text, needs, True)
        for k in range(most + 1, self.layers + 1):
            step = self._planned(self._last(k))
            if step is not None and (needs := self.memory.needs(step)) > used_bytes:
                return Alternative(self._last(k), needs, self.memory.fits(step))
        return None

    def _most_texts(self, layers: int) -> Iterator[str]:
        """The schemes of the most layers and the most biases that fit, if any do."""
        if layers:
            yield self._last(layers)
        if biases := self._most(self._biases):
            yield self._biases(biases)

    def head(self) -> Alternative:
        """The least that can be trained."""
        step = self.least
        return Alternative(HEAD, self.memory.needs(step), self.memory.fits(step))

    # ------------------------------------------------------------------ without an analysis

    @cached_property
    def least(self) -> TrainingStep:
        """The step of the head, the least that can be trained."""
        return self.plan(parse_scheme(HEAD))

    @cached_property
    def layers(self) -> int:
        """Layers before the head."""
        return len(layers_of(self.graph, find_head(self.graph)))

    @cached_property
    def headed(self) -> Graph:
        """The model with the head that is trained."""
        if self.options.targets is not None:
            return with_head(self.graph, replace(self.options, classes=self.classes))
        if self.classes is None:
            return self.graph
        return replace_head(self.graph, find_head(self.graph).node, self.classes)

    @cached_property
    def costs(self) -> CostModel:
        """How schemes are costed; what was worked out before is kept."""
        return cost_model(
            self.headed,
            self.memory.target,
            self.options,
            bias_bits=(self.bits.bias_bits,),
            update_rule=self.bits.update_rule,
        )

    def least_bytes(self, scheme: UpdateScheme) -> int:
        """No plan of the scheme takes less SRAM. Raises SchemeError, UnsupportedError."""
        scheme = replace(
            scheme,
            residual_bits=self.bits.residual_bits,
            head_residual_bits=self.bits.head_residual_bits,
            bias_bits=self.bits.bias_bits,
            update_rule=self.bits.update_rule,
        )
        return self.costs.fixed_sram_bytes + least_sram_bytes(self.costs.cost(scheme))

    def _last(self, k: int) -> str:
        """The scheme of so many layers from the end."""
        return "head" if k == 0 else "full" if k == self.layers else f"last:{k}"

    @staticmethod
    def _biases(k: int) -> str:
        """The scheme of so many biases from the end."""
        return f"bias:{k}" if k else "head"

    def _may_fit(self, text: str) -> bool:
        """Return whether sums that are at most the truth are within the limit."""
        if self.memory.sram_bytes is None:
            return True
        try:
            return self.least_bytes(parse_scheme(text)) <= self.memory.sram_bytes
        except (SchemeError, UnsupportedError):
            return False

    @cached_property
    def _planned(self) -> Callable[[str], TrainingStep | None]:
        """The step of a scheme; None if the model cannot be trained so. The last ones are known."""

        @lru_cache(maxsize=MOST_STEPS)
        def planned(text: str) -> TrainingStep | None:
            try:
                return self.plan(parse_scheme(text))
            except (SchemeError, UnsupportedError, PlanError):
                return None

        return planned

    def _fitting(self, text: str) -> TrainingStep | None:
        """The step of a scheme, if it fits as it is planned."""
        step = self._planned(text) if self._may_fit(text) else None
        return step if step is not None and self.memory.fits(step) else None

    def _most(self, name: Callable[[int], str]) -> int:
        """Return how many layers, or biases, from the end fit; needs grow with them."""
        low, high = 0, self.layers
        if self._may_fit(name(high)):  # a small model often fits as a whole
            low = high
        while low < high:
            k = (low + high + 1) // 2
            low, high = (k, high) if self._may_fit(name(k)) else (low, k - 1)
        while low and self._fitting(name(low)) is None:
            low -= 1
        return low

    def _too_small(self, step: TrainingStep) -> PlanError:
        """Nothing can be trained. step: of the head. It is said before an analysis."""
        memory = self.memory
        what, needs, limit = "SRAM", memory.needs(step), memory.sram_bytes or 0
        if needs <= limit:
            what, needs, limit = "flash", memory.flash_needs(step), memory.limits.flash_bytes or 0
        slots = what == "flash" and needs - limit <= memory.limits.slots_flash_bytes
        hint = "give the program the flash of the slots (--slots off), " if slots else ""
        without = "--board" if memory.target else "--sram"
        return PlanError(
            f"nothing can be trained in {memory.name}: the head alone takes {needs:,} bytes of "
            f"{what}, {needs - limit:,} more than there are; {hint}take a smaller input or model, "
            f"or simulate without {without} (--scheme head)"
        )

    def _largest(self, why: str) -> AutoScheme:
        """The most layers from the end that fit; the head does."""
        text = self._last(self._most(self._last))
        step = self.plan(parse_scheme(text))
        reason = f"the most layers from the end that fit in {self.memory.name}; {why}"
        return self._chosen(text, reason, step)

    def _chosen(
        self, text: str, reason: str, step: TrainingStep, larger: Alternative | None = None
    ) -> AutoScheme:
        return AutoScheme(text, reason, self.memory.needs(step), self.memory.sram_bytes, larger)

    # ------------------------------------------------------------------ by an analysis

    def _analysis(self, split: Split, normalization: Normalization | None) -> Contributions:
        """Take the analysis from the cache, or make it. Raises DataError for unfit samples."""
        if not split.is_labelled:
            raise DataError("the data has no labels")
        tests = None if split.validation else max(min(TESTS, len(split.train) // 4), 1)
        parts = held_out(split.train, None, tests, 0, split.validation)
        targets = self.options.targets
        problem = Problem.of(self.graph, parts, self.classes, normalization, targets=targets)
        settings = GradientSettings(GRADIENT_SAMPLES, head_rates=HEAD_RATES)
        facts = (graph_digest(self.graph), problem.outputs, problem.data_digest, settings)
        path = _kept("analysis", facts)
        known = _read_analysis(path)
        if known is None:
            known = _at_usual_rate(by_gradient(problem, settings, self.report))
            with suppress(CacheError):
                cache.write(path, known.to_json().encode())
        return known

    def _selected(self, analysis: Contributions) -> AutoScheme:
        """Return what gains most in the memory, from the cache or found now."""
        options = replace(self.options, class_names=())  # no choice depends on them
        needs = (self.memory, options, self.bits, self.costs.fixed_sram_bytes)
        facts = (graph_digest(self.headed), analysis.to_json(), repr(needs))
        path = _kept("choice", facts)
        known = _read_choice(path)
        if known is not None and (step := self._fitting(known.scheme)) is not None:
            return self._chosen(known.scheme, known.reason, step, known.larger)
        found = self._select(analysis)
        with suppress(CacheError):
            cache.write(path, json.dumps(found.to_dict()).encode())
        return found

    def _select(self, analysis: Contributions) -> AutoScheme:
        """The best by an analysis. Raises PlanError if nothing fits.

        It is asked again with less memory where its choice takes more with the other flags.
        """
        limits, selector = self.memory.limits, self._selector(analysis, JOINT)
        for _ in range(MOST_REPEATS):
            found = selector.find(limits)
            text = text_of(found.scheme, self.layers)
            step = self.plan(parse_scheme(text))
            if self.memory.fits(step):
                return self._chosen(text, self._reason(text), step, self._next(selector, found))
            assert limits.sram_bytes is not None
            excess = max(self.memory.needs(step) - found.measured.sram_bytes, 8)
            limits = replace(limits, sram_bytes=limits.sram_bytes - excess)
        return self._largest("with the other flags, what is selected does not fit")

    def _selector(self, analysis: Contributions, measure: str) -> Selector:
        kernels = analysis.kernels
        assert kernels is not None, "it is kept with them"
        factors = {self.bits.residual_bits: 1.0}
        asked = replace(
            analysis.smoothed(), residual_factor=factors, kernels=kernels.at(JOINT_SHARE)
        )
        if self.memory.sram_bytes is not None:
            asked = fitting(asked, self.headed, self.costs, _more(self.memory.sram_bytes))
        return Selector(self.headed, asked, self.costs, measure, self._costed)

    def _smaller(self, analysis: Contributions, found: AutoScheme) -> Iterator[Alternative]:
        """The best in half of the bytes, and in less and less, down to the head."""
        most = found.sram_bytes // 2
        limits, selector = self.memory.limits, self._selector(analysis, LEARNABLE)
        budget = most
        while True:
            try:
                chosen = selector.find(replace(limits, sram_bytes=budget))
            except PlanError:
                return
            text = text_of(chosen.scheme, self.layers)
            step = self._planned(text)
            if step is not None and self.memory.needs(step) <= most:
                yield Alternative(text, self.memory.needs(step), self.memory.fits(step))
            budget = chosen.measured.sram_bytes * 3 // 4

    def _costed(self, done: int, of: int) -> None:
        self.report("costing schemes", done, of)

    def _reason(self, text: str) -> str:
        if text == "head":
            return f"by gradients nothing else that fits in {self.memory.name} helps"
        return f"by gradients it helps most of all that fits in {self.memory.name}"

    def _next(self, selector: Selector, found: BestScheme) -> Alternative | None:
        """Return what an eighth more memory would buy; None if that gains nothing."""
        limit = found.limits.sram_bytes
        if limit is None:
            return None
        wider = replace(found.limits, sram_bytes=_more(limit))
        more = selector.find(wider)
        text = text_of(more.scheme, self.layers)
        step = self._planned(text) if more.gain > found.bound else None
        if step is None or self.memory.fits(step):
            return None
        return Alternative(text, self.memory.needs(step), False)


def _more(sram_bytes: int) -> int:
    """The memory for which it is asked what more would buy."""
    return sram_bytes + max(sram_bytes // NEXT_PART, 1)


def text_of(scheme: UpdateScheme, layers: int) -> str:
    """A scheme of layers and biases as `--scheme` takes it. layers: before the head."""
    depth = layers if scheme.bias_depth is None else scheme.bias_depth
    shares = {int(i): share for i, share in scheme.weights.items() if share > 0}
    if shares == dict.fromkeys(range(layers - depth, layers), 1.0):
        return "head" if depth == 0 else "full" if depth == layers else f"last:{depth}"
    parts = [f"{i}:{share:g}" for i, share in sorted(shares.items())]
    return ",".join([*parts, f"bias:{depth}"])


def _reachable(analysis: Contributions, text: str) -> float:
    """Return what a scheme of layers and biases can learn as a whole. text: as text_of gives it."""
    kernels = analysis.kernels
    assert kernels is not None, "it is kept with them"
    scheme, layers = parse_scheme(text), len(kernels.biases)
    depth = layers if scheme.bias_depth is None else scheme.bias_depth
    whole = layers if scheme.depth_weights is None else scheme.depth_weights
    shares = dict.fromkeys(range(layers - whole, layers), 1.0)
    shares |= {int(i): share for i, share in scheme.weights.items() if share > 0}
    return kernels.reachable(kernels.of(depth, shares))


def _at_usual_rate(found: Contributions) -> Contributions:
    """Return what each part can learn, and all together, at the rate that suits the network.

    Modules are left out: they have no text.
    """
    kernels = found.kernels
    assert kernels is not None, "an analysis by gradient has them"
    count = len(found.layers)
    names = {i: (f"weight {i}", f"bias {i}") for i in range(count)}
    products: dict[str, tuple[Array, ...]]
    products = {names[i][1]: (k,) for i, k in enumerate(kernels.biases)}
    products |= {names[i][0]: tuple(by[s] for s in sorted(by)) for i, by in kernels.weights.items()}
    shares = {i: {s: n for n, s in enumerate(sorted(by), 1)} for i, by in kernels.weights.items()}
    late = [products[name][-1] for i in range(count // 2, count) for name in names[i]]
    squares = sum(float(np.trace(k)) / len(k) for k in late)
    rate = min(2 * OVERSHOOT / squares, MOST_RATE) if squares > 0 else MOST_RATE
    alone = partial(learnable, learning_rate=rate, steps=kernels.steps)
    together = partial(effective_dimension, ridge=2 / (JOINT_SHARE * rate * kernels.steps))
    gains = {
        name: product_gains(products, names, shares, (), measure, least_biases(count))
        for name, measure in ((JOINT, together), (LEARNABLE, alone))
    }
    mean, mean_square = COSINE_MOMENTS
    kernels = replace(
        kernels, rate=mean * rate, disturbing_rate=mean_square / mean * rate, modules={}
    )
    kept = {"learning_rate": rate}
    return replace(found, gains=gains, kernels=kernels, channels={}, settings=kept)


def _kept(what: str, facts: Any) -> Path:
    """Return where an answer is kept: by all that it depends on, this package's code included."""
    key = hashlib.sha256(f"{code_digest(sources())} {facts!r}".encode()).hexdigest()[:32]
    return cache.cache_folder() / "automatic" / f"{what}-{key}.json"


def _read_analysis(path: Path) -> Contributions | None:
    """Return what was kept; None if it is absent or damaged."""
    content = cache.read(path)
    if content is None:
        return None
    try:
        found = contributions_of(json.loads(content), str(path))
    except (ValueError, AnalysisError):
        return None
    return None if found.kernels is None else found


def _read_choice(path: Path) -> AutoScheme | None:
    """Read a kept choice; None if there is none that can be read."""
    try:
        values = json.loads(cache.read(path) or b"")
        larger = values.pop("larger")
        return AutoScheme(**values, larger=None if larger is None else Alternative(**larger))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
