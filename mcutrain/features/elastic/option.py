"""The option of an elastic step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.rewriting import Building, Rewriting


@dataclass(frozen=True, kw_only=True)
class ElasticOption:
    """A field of StepOptions. elastic: trained tensors can be left out while it runs."""

    elastic: bool = False


class ElasticRewriting(Rewriting):
    """Every trained tensor can be left out; nodes stay as they are."""

    needs_sgd = "tensors that are left out while it runs (--elastic)"

    def finish(self, building: Building) -> Mapping[str, Any]:
        """Return the trained tensors."""
        return {"elastic": tuple(building.trained)}


def rewriting(options: ElasticOption) -> Rewriting | None:
    """Return what makes a step elastic, if it is to be."""
    return ElasticRewriting() if options.elastic else None
