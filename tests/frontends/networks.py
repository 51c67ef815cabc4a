"""Small networks that take features of sound."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.functions.preparing import with_frontend
from mcutrain.ir.graph import Graph
from tests.simulation.networks import Network, same

SCALE, ZERO_POINT = 0.11, -128


def listener(frames: int = 6, classes: int = 3, frontend: str = "audio:step_ms=20") -> Graph:
    """Tells sounds apart by so many frames of 40 features."""
    net = Network((frames, 40, 1), 1)
    x = net.tensors[net.x]
    net.tensors[net.x] = replace(x, type=replace(x.type, scales=(SCALE,), zero_point=ZERO_POINT))
    y = net.conv(net.conv(net.x, 4, same(3, 2), relu=True), 6, same(3, 2), relu=True)
    y = net.conv(net.mean(y), classes, rounds_once=True)
    graph = net.graph(net.reshape(y, (1, classes)), "listener")
    return with_frontend(graph, frontend)
