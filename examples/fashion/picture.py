"""Draws docs/demo.svg, the README's picture, from what `make demo` measured.

python examples/fashion/picture.py ~/.cache/mcutrain/demo/report.json docs/demo.svg
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from mcutrain import demo

WIDTH, HEIGHT = 960, 372
KINDS = {
    "activation": "#4c78a8",
    "ring": "#eeca3b",
    "gradient": "#f58518",
    "mask": "#54a24b",
    "weights": "#72b7b2",
    "scratch": "#b279a2",
    "other": "#bab0ac",
}
CURVES = ("#9d755d", "#e45756")
SHOWN = 5  # images of each sort


def main(report: Path, output: Path) -> None:
    """Write the picture of a report."""
    content = json.loads(report.read_text(encoding="utf-8"))
    parts = [*_images(24, 20), *_curves(content, 24, 196), *_memory(content, 372, 20)]
    style = "font-family='Helvetica,Arial,sans-serif' font-size='12' fill='#222'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {style}>"
    back = f"<rect width='{WIDTH}' height='{HEIGHT}' rx='8' fill='#fff' stroke='#ddd'/>"
    output.write_text("\n".join([head, back, *parts, "</svg>"]) + "\n", encoding="utf-8")


def _images(left: int, top: int) -> Iterable[str]:
    """Two rows of images: as the network knows them, as the sensor delivers them."""
    images = demo.upright(demo.Size()).test.x[:SHOWN]
    rows = ((("pre-", "trained"), images), (("in the", "device"), demo.sensor(images)))
    yield _text(left, top + 12, "The same clothes", weight="bold")
    for n, (name, row) in enumerate(rows):
        y = top + 24 + n * 62
        strip = np.concatenate([np.pad(i[..., 0], 1, constant_values=90) for i in row], axis=1)
        buffer = io.BytesIO()
        Image.fromarray(strip).save(buffer, "PNG", optimize=True)
        data = base64.b64encode(buffer.getvalue()).decode()
        yield from (_text(left, y + 22 + 15 * i, line) for i, line in enumerate(name))
        yield (
            f"<image x='{left + 60}' y='{y}' width='{SHOWN * 50}' height='50' "
            f"style='image-rendering:pixelated' href='data:image/png;base64,{data}'/>"
        )


def _curves(content: dict[str, Any], left: int, top: int) -> Iterable[str]:
    """Test accuracy after each epoch, simulated with the C of the device."""
    found = [c for c in content["curves"] if c["unit"] == "epoch"]
    x0, y0, width, height = left + 34, top + 24, 140, 110
    last = max(p["at"] for c in found for p in c["points"])
    yield _text(left, top + 10, "Test accuracy, trained in int8", weight="bold")
    for percent in (0, 50, 100):
        y = y0 + height * (1 - percent / 100)
        yield f"<path d='M{x0} {y:.1f}h{width}' stroke='#ddd'/>"
        yield _text(x0 - 6, y + 4, f"{percent}", anchor="end")
    for epoch in range(last + 1):
        yield _text(x0 + width * epoch / last, y0 + height + 16, str(epoch), anchor="middle")
    yield _text(x0 + width / 2, y0 + height + 31, "epoch", anchor="middle")
    for curve, color in zip(found, CURVES, strict=True):
        points = [
            (x0 + width * p["at"] / last, y0 + height * (1 - p["test_accuracy"]))
            for p in curve["points"]
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='2'/>"
        yield from (f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{color}'/>" for x, y in points)
        reached = f"{curve['points'][-1]['test_accuracy']:.1%}".replace("%", " %")
        yield _text(x0 + width + 8, points[-1][1] + 4, f"{curve['name']}, {reached}", color)


def _memory(content: dict[str, Any], left: int, top: int) -> Iterable[str]:
    """Every buffer of a training step as a rectangle over time, at its place in the arena."""
    memory = content["memory"]
    steps, arena = len(memory["steps"]), memory["arena_bytes"]
    x0, y0, width, height = left + 48, top + 40, 520, 246
    yield _text(
        left, top + 12, f"One training step in {arena:,} bytes: every buffer's place", weight="bold"
    )
    for kilobytes in range(0, arena // 1024 + 1, 8):
        y = y0 + height * (1 - kilobytes * 1024 / arena)
        yield f"<path d='M{x0} {y:.1f}h{width}' stroke='#eee'/>"
        yield _text(x0 - 6, y + 4, f"{kilobytes} KB", anchor="end")
    for buffer in memory["buffers"]:
        x = x0 + width * buffer["first"] / steps
        across = width * (buffer["last"] + 1 - buffer["first"]) / steps
        up = height * buffer["size_bytes"] / arena
        y = y0 + height * (1 - buffer["offset"] / arena) - up
        yield (
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{across:.1f}' height='{up:.1f}' "
            f"fill='{KINDS[buffer['kind']]}' fill-opacity='.8' stroke='#fff' stroke-width='.5'>"
            f"<title>{escape(buffer['name'])}, {buffer['size_bytes']:,} bytes</title></rect>"
        )
    peak = x0 + width * (memory["peak_step"] + 0.5) / steps
    yield f"<path d='M{peak:.1f} {y0 - 14}v{height + 14}' stroke='#222' stroke-dasharray='3 3'/>"
    name = memory["steps"][memory["peak_step"]]
    yield _text(peak + 6, y0 - 6, f"peak: {name}")
    yield from _time_axis(memory, x0, y0 + height, width)
    x = float(x0)
    drawn = {buffer["kind"] for buffer in memory["buffers"]}
    for kind, color in ((k, c) for k, c in KINDS.items() if k in drawn):
        yield f"<rect x='{x}' y='{y0 + height + 30}' width='11' height='11' fill='{color}'/>"
        yield _text(x + 16, y0 + height + 40, kind)
        x += 36 + 6.5 * len(kind)


def _time_axis(memory: dict[str, Any], x0: float, bottom: float, width: float) -> Iterable[str]:
    """Where the forward pass ends."""
    loss = next(i for i, name in enumerate(memory["steps"]) if "loss" in name)
    middle = width * loss / len(memory["steps"])
    yield f"<path d='M{x0} {bottom}h{width}M{x0 + middle:.1f} {bottom}v6' stroke='#222'/>"
    yield _text(x0 + middle / 2, bottom + 16, "forward pass", anchor="middle")
    backward = "backward pass, with its updates"
    yield _text(x0 + (middle + width) / 2, bottom + 16, backward, anchor="middle")


def _text(
    x: float, y: float, text: str, color: str = "", anchor: str = "", weight: str = ""
) -> str:
    named = (("fill", color), ("text-anchor", anchor), ("font-weight", weight))
    more = "".join(f" {name}='{value}'" for name, value in named if value)
    return f"<text x='{x:.1f}' y='{y:.1f}'{more}>{escape(text)}</text>"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: picture.py REPORT_JSON OUTPUT_SVG")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
