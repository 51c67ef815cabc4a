"""A page with some samples of each class, as pictures."""

from __future__ import annotations

import numpy as np
from mcutrain_host.packages import OPTIONAL

from mcutrain.data import Dataset
from mcutrain.errors import DataError
from mcutrain.report.html import templates
from mcutrain.report.pictures import extent, picture

TEMPLATE = "contact_sheet.html.j2"


def contact_sheet(title: str, part: Dataset, summary: str, of_each: int) -> str:
    """The HTML. of_each: samples of a class. Raises DataError where Pillow is not installed."""
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)
    has_classes = part.is_labelled and not part.has_targets and not part.positions
    low, high = extent(part.x)
    rows = [
        (name, int(index.size), [picture(part.x[i], low, high) for i in index[:of_each]])
        for name, index in (
            ((name, np.flatnonzero(part.y == label)) for label, name in enumerate(part.names))
            if has_classes
            else [("samples", np.arange(len(part)))]
        )
    ]
    return templates().get_template(TEMPLATE).render(title=title, summary=summary, rows=rows)
