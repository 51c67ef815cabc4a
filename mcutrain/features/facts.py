"""What features count while a step trains: declared once, said in logs, results and summaries.

A feature declares each of its facts as a field of a dataclass, by `fact`. Results of runs and of
epochs have these fields, and everybody who says something of them asks the FactTable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import numbers
from mcutrain_host.state import StateTable

FACT = "fact"
"""Where a field has its StateFact."""


@dataclass(frozen=True, kw_only=True)
class StateFact:
    """A number, or several, that a feature keeps in the state.

    kind: of the section that it is read from. read: its value, from the numbers there. is_count: it
    adds up over a run, so that an epoch has its part of it; else it is what holds at the end.

    brief: a word or two on the value, for the line of an epoch. line: a sentence on the value and
    the steps of the run, for its summary.
    """

    kind: str
    read: Callable[[Sequence[int]], Any]
    is_count: bool
    brief: Callable[[Any], str]
    line: Callable[[Any, int], str]


def fact(
    kind: str,
    read: Callable[[Sequence[int]], Any],
    *,
    is_count: bool,
    brief: Callable[[Any], str],
    line: Callable[[Any, int], str],
) -> Any:
    """Declare a field as a StateFact of that name. It is None where a step has not the feature."""
    found = StateFact(kind=kind, read=read, is_count=is_count, brief=brief, line=line)
    return field(default=None, metadata={FACT: found})


@dataclass(frozen=True)
class FactTable:
    """All facts by name, in the order in which they are said."""

    facts: Mapping[str, StateFact]

    @staticmethod
    def of_fields(declared: type) -> FactTable:
        """Collect the fields of a dataclass that `fact` declared."""
        found = {f.name: f.metadata[FACT] for f in fields(declared) if FACT in f.metadata}
        return FactTable(found)

    def read(self, saved: bytes, table: StateTable) -> dict[str, Any]:
        """Return the facts that a sound saved state has. table: of its sections."""
        found = {name: (one, numbers(saved, table, one.kind)) for name, one in self.facts.items()}
        return {name: one.read(words) for name, (one, words) in found.items() if words}

    def since(self, now: Mapping[str, Any], before: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what was counted after all that was counted before; other facts as they are now.

        before: counts that add up to those of an earlier state.
        """
        found = dict(now)
        for earlier in before:
            for name in found:
                if self.facts[name].is_count and earlier.get(name) is not None:
                    found[name] = _minus(found[name], earlier[name])
        return found

    def of(self, result: object) -> dict[str, Any]:
        """Return the facts that a result has as fields, None among them."""
        return {name: getattr(result, name) for name in self.facts}

    def none(self) -> dict[str, None]:
        """Return the facts of a step without features."""
        return dict.fromkeys(self.facts)

    def lines(self, counted: Mapping[str, Any], steps: int) -> Iterator[str]:
        """Return a line of a run's summary for each fact. steps: of the run."""
        for name, value in self._known(counted):
            yield f"{name:16}{self.facts[name].line(value, steps)}"

    def brief(self, counted: Mapping[str, Any]) -> str:
        """Return what the line of an epoch says of them, each behind a comma."""
        return "".join(f", {self.facts[name].brief(value)}" for name, value in self._known(counted))

    def _known(self, counted: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        named = ((name, counted.get(name)) for name in self.facts)
        return ((name, value) for name, value in named if value is not None)


def _minus(now: Any, before: Any) -> Any:
    """Subtract a count, or counts one by one."""
    if isinstance(now, tuple):
        return tuple(n - b for n, b in zip(now, before, strict=True))
    return now - before
