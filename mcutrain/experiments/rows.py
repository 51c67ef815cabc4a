"""Rows of a comparison: what each of them trains, and which of them were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff import Gate
from mcutrain.cost.executed import StepParts
from mcutrain.errors import ArgumentError, SchemeError
from mcutrain.experiments.parallel import Elastic, Resampling, SchemeWay, StepMaking
from mcutrain.features import correcting, why_no_ladder
from mcutrain.pipeline import StepOptions
from mcutrain.proxies import kept_ladder, read_facts
from mcutrain.report.learning import Compared
from mcutrain.sparse import UpdateScheme, parse_scheme

ALPHA = 0.8
"""Default gate threshold for rows with proxies."""


@dataclass(frozen=True)
class PlannedRow:
    """A row that is to be: what to call it, and what it trains.

    way: if it is trained otherwise than all rows. parts: what a step is made of, once it is
    planned.
    """

    name: str
    scheme: UpdateScheme
    way: SchemeWay = SchemeWay()
    parts: StepParts | None = None


@dataclass(frozen=True)
class Proxies:
    """Rows with a proxy cascade, as `mcutrain proxies` wrote it into a folder.

    gate: alpha of the rows that have a gate. more: options of the steps that have the cascade, by
    name: what corrects its choice.
    """

    folder: Path
    gate: float = ALPHA
    more: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path | None, gate: float | None, more: Mapping[str, Any]) -> Proxies | None:
        """Return what was asked for; None without a folder. Raises ArgumentError, McutrainError."""
        if folder is None:
            if reason := why_no_ladder(StepOptions(**more)):
                raise ArgumentError(reason)
            return None
        read_facts(folder)  # a sentence before the data is read
        alpha = ALPHA if gate is None else gate
        Gate.of(alpha)
        return Proxies(folder, alpha, more)

    def scheme_row(self) -> PlannedRow:
        """Return what it was made for. Raises SchemeError if only a file knows that."""
        name = str(read_facts(self.folder).get("scheme", ""))
        try:
            return PlannedRow(name, parse_scheme(name))
        except SchemeError as error:
            called = f", {name!r}," if name else ""
            raise SchemeError(
                f"the scheme that {self.folder} was made for{called} is known by its file alone: "
                "give that, too (--scheme)"
            ) from error

    def rows(self, asked: Sequence[PlannedRow], options: StepOptions) -> list[PlannedRow]:
        """Each scheme with the gate alone, with the cascade alone, and with both.

        options: of the steps of all rows.
        """
        ladder = kept_ladder(self.folder)
        corrected = "".join(f", {one.option}" for one in correcting(StepOptions(**self.more)))
        plain, gated = (replace(options, gate=gate) for gate in (None, self.gate))
        ways = {
            f"gate {self.gate:g}": StepMaking(gated),
            f"proxies{corrected}": StepMaking(replace(plain, **self.more), ladder),
            f"proxies{corrected}, gate {self.gate:g}": StepMaking(
                replace(gated, **self.more), ladder
            ),
        }
        return [
            PlannedRow(
                name if len(asked) == 1 else f"{name}: {row.name}",
                row.scheme,
                SchemeWay(making=making),
            )
            for row in asked
            for name, making in ways.items()
        ]


def elastic_rows(
    candidates: Sequence[PlannedRow],
    rows: Sequence[Compared],
    usual_ones: int,
    given: int,
    elastic: Elastic,
) -> list[PlannedRow]:
    """The schemes and modules that were given, trained elastically; not one that was selected.

    If there are none it is the largest of the usual ones that fits, or full if none does.
    rows: of the candidates. usual_ones, given: as Planner.rows_with takes them.
    """
    asked = [*candidates[usual_ones : usual_ones + given]]
    asked += [row for row in candidates[usual_ones + given :] if row.way.graph is not None]
    if not asked:
        usual_rows = rows[:usual_ones]
        fitting = [i for i, row in enumerate(usual_rows) if row.fits is not False]
        largest = max(fitting, key=lambda i: rows[i].sram_bytes, default=usual_ones - 1)
        asked = [candidates[largest]]
    return [
        replace(
            row,
            name=f"elastic {elastic.share:g} of {row.name}",
            way=replace(row.way, elastic=elastic),
        )
        for row in asked
    ]


def resampled_rows(given: Sequence[PlannedRow], resampling: Resampling) -> list[PlannedRow]:
    """The schemes behind the usual ones, with other columns in turn.

    Raises ArgumentError if there are none: the usual ones train no layer in part.
    """
    if not given:
        raise ArgumentError(
            "channels are resampled of a scheme that trains layers in part: give one, as in 22:0.25"
        )
    return [
        PlannedRow(
            f"resampled, {resampling.rule}: {row.name}",
            row.scheme,
            SchemeWay(resampling=resampling),
        )
        for row in given
    ]


def with_ladders_scheme(
    candidates: Sequence[PlannedRow], usual_ones: int, given: int, proxies: Proxies
) -> tuple[list[PlannedRow], list[PlannedRow]]:
    """All candidates, and those of them that get a ladder: as many as were given, behind the usual
    ones.

    If there are none it is the scheme that the cascade was made for, which is added if no row has
    it.
    """
    if given:
        return list(candidates), list(candidates[usual_ones : usual_ones + given])
    own = proxies.scheme_row()
    alike = [row for row in candidates if row.way.graph is None and row.scheme == own.scheme]
    return ([*candidates], alike[:1]) if alike else ([*candidates, own], [own])
