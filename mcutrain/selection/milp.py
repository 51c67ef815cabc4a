"""The choices at one bias depth as a mixed-integer program, solved by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import PlanError
from mcutrain.selection.cost import Limits
from mcutrain.selection.option import Depth, Option
from mcutrain.selection.silence import silenced_stdout
from mcutrain.selection.units import Shares

if TYPE_CHECKING:  # slow to import, and every simulation imports this module
    from scipy.optimize import LinearConstraint

Array = npt.NDArray[Any]
Chosen = tuple[int, ...]
"""Indices of the options that are taken, ascending."""

SOLVED, INFEASIBLE = 0, 2  # scipy's status
EFFORTS: tuple[Any, ...] = (
    {"mip_rel_gap": 0.0, "node_limit": 10_000, "presolve": False},
    {"mip_rel_gap": 1e-3},
)
"""Options of the solver: a proof, and what is tried if there are too many nodes for it.

A proof takes half the time without presolving: a few nodes, each of a hundred columns.
"""
ROUGHLY: tuple[Any, ...] = ({"mip_rel_gap": 0.05, "presolve": False}, {"mip_rel_gap": 0.5})
"""Gaps where any choice will do that is not far from the best. Without presolving that, too, takes
half the time."""
MOST_SPARE = 1.0
ROUNDING = 1e-9
"""A bound of sums is broken where it is by more than this part of the largest number."""
TINY = 1e-30
"""A number so small that it changes nothing; a row of zeros can be divided by it."""
SCALE = 1000.0
"""The largest gain as the solver sees it, so that its tolerances of 1e-6 are small beside it."""
TOLERANCE = 1e-7
"""Gains nearer to each other than this share of the largest are equal, the smaller scheme wins."""


@dataclass(frozen=True)
class IntegerProgram:
    """One depth at some residual bits under limits.

    gains: of each column at these bits; the first columns are the depth's options, the others
    bundles of what options share. rows: what each column adds to each limited quantity, int64
    [rows][columns]; room[row]: how much of it there is for them. peak_rows, peak_base: SRAM at
    each step, with or without a limit. cuts: what must not be chosen.
    """

    depth: Depth
    bits: int
    gains: Array
    rows: Array
    room: Array
    peak_rows: Array
    peak_base: Array
    bundles: tuple[Chosen, ...]
    cuts: tuple[Chosen, ...] = field(default=())

    @staticmethod
    def of(depth: Depth, bits: int, limits: Limits, fixed: tuple[int, int]) -> IntegerProgram:
        """fixed: SRAM and flash that firmware takes anyway."""
        options = depth.options
        flash = [o.flash[bits] for o in options] + [size for size, _ in depth.bundles]
        flash_room = (limits.flash_bytes or 0) - depth.flash_bytes - fixed[1]
        has_flash = limits.flash_bytes is not None and _most(depth, flash) > flash_room
        bundles = tuple(chosen for _, chosen in depth.bundles) if has_flash else ()
        peak_rows = depth.peaks[0] + np.array([o.state[bits] for o in options], np.int64)
        peak_rows = _widened(peak_rows, len(bundles))
        peak_base = depth.peaks[1] + depth.state_bytes + fixed[0]
        rows, room = [peak_rows[:0]], [peak_base[:0]]
        if limits.sram_bytes is not None:
            rows.append(peak_rows)
            room.append(limits.sram_bytes - peak_base)
        if has_flash:
            rows.append(np.array([flash], np.int64))
            room.append(np.array([flash_room], np.int64))
        if limits.instructions is not None:
            work = np.array([[o.instructions[bits] for o in options]], np.int64)
            rows.append(_widened(work.reshape(1, len(options)), len(bundles)))
            room.append(np.array([limits.instructions - depth.instructions], np.int64))
        all_rows, all_room = np.concatenate(rows), np.concatenate(room)
        matters = _most(depth, all_rows) > all_room
        gains = np.array([[o.gain[bits] for o in options]], np.float64)
        return IntegerProgram(
            depth,
            bits,
            _widened(gains.reshape(1, len(options)), len(bundles))[0],
            all_rows[matters],
            all_room[matters],
            peak_rows,
            peak_base,
            bundles,
        )

    def columns(self, chosen: Chosen) -> list[int]:
        """The options and the bundles that they need."""
        taken = set(chosen)
        count = len(self.depth.options)
        return [*chosen, *(count + i for i, b in enumerate(self.bundles) if taken.intersection(b))]

    def options(self, chosen: Chosen) -> tuple[Option, ...]:
        """The options of these indices."""
        return tuple(self.depth.options[i] for i in chosen)

    def chosen(self, shares: Shares) -> Chosen | None:
        """The options that train these shares; None if there are none."""
        found: list[int] = []
        left, at = set(shares), 0
        for unit in self.depth.units:
            layers = {layer for option in unit for layer, _ in option.shares}
            wanted = tuple(sorted(pair for pair in left if pair[0] in layers))
            if wanted:
                same = (at + i for i, option in enumerate(unit) if option.shares == wanted)
                place = next(same, None)
                if place is None:
                    return None
                found.append(place)
                left.difference_update(wanted)
            at += len(unit)
        return None if left else tuple(found)

    def value(self, chosen: Chosen) -> float:
        """The expected gain."""
        return math.fsum((self.depth.gain, *(float(self.gains[i]) for i in chosen)))

    def peak_bytes(self, chosen: Chosen) -> int:
        """SRAM at the fullest step, as the sums say."""
        return int(np.max(self.peak_base + self.peak_rows[:, list(chosen)].sum(axis=1)))

    def fits(self, chosen: Chosen) -> bool:
        """Return whether the limits hold, in exact arithmetic."""
        return bool(np.all(self.rows[:, self.columns(chosen)].sum(axis=1) <= self.room))

    def without(self, chosen: Chosen) -> IntegerProgram:
        """Return the program with one choice forbidden."""
        return replace(self, cuts=(*self.cuts, chosen))

    def rough_bound(self) -> float | None:
        """Return a bound on what the best choice gains; None if nothing fits.

        It is the best of each unit, or the densest options that fill one limit, fractions of them,
        too.
        """
        if (self.depth.extreme(self.rows, np.min) > self.room).any():
            return None
        most = float(self.depth.extreme(self.gains[None], np.max)[0])
        regular = (self.rows >= 0).all(axis=1)  # else an option may make room for others
        rows, room = self.rows[regular], self.room[regular].astype(np.float64)
        if len(rows):
            density = self.gains / np.maximum(rows, 1)
            order = np.argsort(-density, axis=1)
            sizes = np.maximum(np.take_along_axis(rows, order, 1), 1)
            before = np.cumsum(sizes, axis=1) - sizes
            share = np.clip((room[:, None] + len(self.gains) - before) / sizes, 0.0, 1.0)
            most = min(most, float((share * self.gains[order]).sum(axis=1).min()))
        return self.depth.gain + most

    def bound(self) -> float | None:
        """A nearer bound, by linear relaxation."""
        if not len(self.gains):
            return self.value(()) if self.fits(()) and () not in self.cuts else None
        found = self._solve(-self._scaled, self._limits, self.cuts, integral=False)
        return None if found is None else self.depth.gain - found[1] * self._unit

    def best(self) -> tuple[Chosen, float] | None:
        """The choice that gains most, of equal ones the smaller; None if there is none.

        And what no choice gains more than, if the solver had to give up the proof, else -infinity.
        """
        if not len(self.gains):
            return ((), -math.inf) if self.fits(()) and () not in self.cuts else None
        cuts = list(self.cuts)
        while True:
            found = self._solve(self._sizes - self._scaled, self._limits, cuts, integral=True)
            if found is None:
                return None
            chosen, _, bound = found
            if self.fits(chosen):
                return chosen, -math.inf if bound is None else self.depth.gain - bound * self._unit
            cuts.append(chosen)  # within the solver's tolerance, but not within the limit

    def above(self, rows: Array, least: Array) -> tuple[Chosen, float] | None:
        """A choice that fits with rows @ choice >= least; None if there is none.

        rows: [any number][options]. It is one of those that have most to spare in all rows. Returns
        that spare, too, which no choice exceeds; its unit makes a row's largest number 1.
        """
        if not len(self.gains):
            spare = float(np.min(-least, initial=MOST_SPARE))
            return ((), spare) if spare >= 0 and self.fits(()) and () not in self.cuts else None
        units = np.maximum(np.abs(rows).max(axis=1, initial=0.0), np.abs(least)) + TINY
        if (self._most(rows) < least - ROUNDING * units).any():
            return None
        wanted = np.pad(rows / -units[:, None], ((0, 0), (0, len(self.bundles) + 1)))
        wanted[:, -1] = 1.0
        spare = _limit(wanted, -np.inf, -least / units)
        limits = [_and_one_more(limit) for limit in self._limits]
        goal = np.append(np.zeros(len(self.gains)), -1.0)
        cuts = list(self.cuts)
        while True:
            found = self._solve(goal, [*limits, spare], cuts, True, ROUGHLY)
            if found is None:
                return None
            chosen, most, bound = found
            if self.fits(chosen):
                return chosen, -most if bound is None else -bound
            cuts.append(chosen)

    # ------------------------------------------------------------------ the solver

    def _most(self, rows: Array) -> Array:
        """The most that rows @ choice can be, by the best option of each unit that fits alone."""
        most: Array = self.depth.extreme(np.where(self._fit_alone, rows, -np.inf), np.max)
        return most

    @cached_property
    def _fit_alone(self) -> Array:
        """Options that fit with what makes most room for them."""
        room = self.room - self.depth.extreme(self.rows, np.min)
        own = self.rows[:, : len(self.depth.options)]
        fit: Array = np.asarray((own <= room[:, None]).all(axis=0))
        return fit

    @cached_property
    def _largest(self) -> float:
        return float(np.max(self.gains, initial=0.0)) or 1.0

    @cached_property
    def _unit(self) -> float:
        return self._largest / SCALE

    @cached_property
    def _scaled(self) -> Array:
        scaled: Array = self.gains / self._unit
        return scaled

    @cached_property
    def _sizes(self) -> Array:
        """How much SRAM each column takes, so small a number that it decides between equals."""
        sizes = np.maximum(self.peak_rows.max(axis=0, initial=0), 0).astype(np.float64)
        smallest: Array = sizes * (TOLERANCE * SCALE / max(sizes.sum(), 1.0))
        return smallest

    @cached_property
    def _limits(self) -> list[LinearConstraint]:
        return self._constraint(self.rows, self.room)

    def _constraint(self, rows: Array, room: Array) -> list[LinearConstraint]:
        """Limits, and at most one choice for each unit."""
        together = np.concatenate([rows, self._units, self._needs])
        ones, zeros = np.ones(len(self._units)), np.zeros(len(self._needs))
        return [_limit(together, -np.inf, np.concatenate([room, ones, zeros]))]

    @cached_property
    def _units(self) -> Array:
        """Rows that say that of each unit at most one option is taken."""
        units = np.zeros((len(self.depth.units), len(self.gains)))
        at = 0
        for row, unit in zip(units, self.depth.units, strict=True):
            row[at : at + len(unit)] = 1.0
            at += len(unit)
        return units

    @cached_property
    def _needs(self) -> Array:
        """Rows that say that a bundle is taken if an option of any unit needs it."""
        rows = []
        for i, bundle in enumerate(self.bundles):
            needing = np.zeros(len(self.gains))
            needing[list(bundle)] = 1.0
            for unit in self._units * needing:
                if unit.any():
                    unit[len(self.depth.options) + i] = -1.0
                    rows.append(unit)
        return np.array(rows).reshape(len(rows), len(self.gains))

    def _solve(
        self,
        goal: Array,
        limits: Sequence[LinearConstraint],
        cuts: Sequence[Chosen],
        integral: bool,
        efforts: tuple[Any, ...] = EFFORTS,
    ) -> tuple[Chosen, float, float | None] | None:
        """Minimise goal, whose columns behind the gains are continuous. None if nothing fits.

        Returns what is chosen, the goal's value, and the goal's lower bound if they may differ.
        """
        from scipy.optimize import Bounds, milp

        constraints = list(limits)
        if cuts:
            rows = np.zeros((len(cuts), len(goal)))
            rows[:, : len(self.depth.options)] = 1.0
            for row, cut in zip(rows, cuts, strict=True):
                row[list(cut)] = -1.0
            least = np.array([1.0 - len(cut) for cut in cuts])
            constraints.append(_limit(rows, least, np.inf))
        integrality = np.zeros(len(goal))
        integrality[: len(self.gains)] = int(integral)
        # HiGHS' presolve ends in an error where coefficients of a row differ by 1e7
        for options in (*efforts, {**efforts[-1], "presolve": False}):
            with silenced_stdout():  # HiGHS prints lines of its own debugging there
                solution = milp(
                    goal,
                    integrality=integrality,
                    bounds=Bounds(0.0, 1.0),
                    constraints=constraints,
                    options=dict(options),  # scipy takes some of them out
                )
            if solution.status in (SOLVED, INFEASIBLE):
                break
        if solution.status == INFEASIBLE:
            return None
        if solution.status != SOLVED or solution.x is None:
            raise PlanError(f"the solver gave up on the selection: {solution.message}")
        taken = solution.x[: len(self.depth.options)] > 0.5
        chosen = tuple(np.flatnonzero(taken).tolist())
        proved = not integral or options is EFFORTS[0]
        return chosen, float(solution.fun), None if proved else float(solution.mip_dual_bound)


def _limit(rows: Array, least: Array | float, most: Array | float) -> LinearConstraint:
    """Limit the sum of each row to this range."""
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csr_array

    return LinearConstraint(csr_array(rows), least, most)


def _and_one_more(limit: LinearConstraint) -> LinearConstraint:
    """Return the limit for a program with another column."""
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csr_array

    matrix = csr_array(limit.A)
    wide = csr_array(
        (matrix.data, matrix.indices, matrix.indptr), (matrix.shape[0], matrix.shape[1] + 1)
    )
    return LinearConstraint(wide, limit.lb, limit.ub)


def _widened(rows: Array, columns: int) -> Array:
    """Add so many columns of zeros behind."""
    return np.pad(rows, ((0, 0), (0, columns)))


def _most(depth: Depth, rows: Array | Sequence[int]) -> Array:
    """The most that a choice and all bundles can add to each row."""
    rows = np.atleast_2d(np.asarray(rows, np.int64))
    most: Array = depth.extreme(rows, np.max) + rows[:, len(depth.options) :].sum(axis=1)
    return most
