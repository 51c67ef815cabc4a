"""The importance of channels that an analysis measured, in a scheme."""

from __future__ import annotations

from mcutrain.selection.contribution import Contributions, with_importance
from mcutrain.sparse import UpdateScheme, find_head, layers_of
from tests.simulation.networks import residual_network


def test_an_analysis_gives_the_layers_trained_in_part_their_importance() -> None:
    layers = tuple(
        layer.name for layer in layers_of(residual_network(), find_head(residual_network()))
    )
    measured = {i: tuple(i + c / 7 for c in range(6)) for i in range(4)}
    analysis = Contributions("m", "d", 4, "fisher", layers, {}, {}, channels=measured)
    scheme = UpdateScheme("s", 2, {"1": 1.0, "2": 0.5, "node3": 0.5, "5": 0.5})
    weighed = with_importance(scheme, analysis)
    assert set(weighed.importance) == {"2", "node3"}
    assert weighed.importance["2"] == (2.0, 2.143, 2.286, 2.429, 2.571, 2.714)
