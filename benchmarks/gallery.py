"""Models on boards: what a training step takes of each, by the plan. Writes docs/gallery.md.

    .venv/bin/python benchmarks/gallery.py --shared ../shared > docs/gallery.md

SRAM is all that the firmware takes, with stack and variables; flash are the constants and the code
of the network and its step, without start-up and protocol; time is the estimate of `plan`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import mcutrain
from mcutrain import demo
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.memory import flash_bytes
from mcutrain.errors import McutrainError

BOARDS = (
    *("bbc-microbit-v2", "rpi-pico", "esp32-c3-devkit", "nucleo-f446re", "rpi-pico-2"),
    *("nucleo-h743zi", "mps3-an547"),
)
HEADERS = ("board", "scheme", "SRAM", "flash", "ms a step")
MODELS = {
    "kws_ref_model": (
        "Twelve spoken words, MLPerf Tiny",
        "fine-tuned on its own classes: 92.0 % by `head`, 94.0 % by `full` "
        "([selection](measurements/selection.md))",
    ),
    "fashion": (
        "Clothes, 28×28, the demo",
        "images of a turned and dimmed sensor: 71.9 % by `head`, 83.2 % by `full` "
        "([selection](measurements/selection.md))",
    ),
    "ad01_int8": ("Anomalies of machines by sound, MLPerf Tiny", "not measured"),
    "vww_96_int8": (
        "Person or not, 96×96, MLPerf Tiny, with ten classes",
        "ten digits of sign language: 17.2 % by `head`, 22.3 % by `last:4`, 65.7 % by `full`, "
        "79.0 % by what `simulate` selects for 256 KB ([selection](measurements/selection.md))",
    ),
    "mcunet-5fps.int8": (
        "MCUNet of ImageNet, 128×128, with ten classes",
        "CIFAR-10: 73.8 % by `head`, 80.2 % by what `select` finds for 75 KB "
        "([selection](measurements/selection.md))",
    ),
}
NEW_CLASSES = {"vww_96_int8": 10, "mcunet-5fps.int8": 10}
SCHEMES = ("head", "last:2", "full")


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True, help="has models/")
    shared: Path = parser.parse_args().shared
    print(
        "# Gallery: models on boards\n\n"
        "Which board holds which model, and how much of it can be trained there? **Every board "
        "here trains the heads of the classifiers. The autoencoder of sounds needs 200 KB; all "
        "layers of the larger networks need a large board.**\n\n"
        "A row is what `mcutrain plan MODEL --board B --scheme S` says. What is missing does not "
        "fit. SRAM is all of the firmware's, with stack and variables. Flash is constants and code "
        "of the network and its step, in bytes, too. The time of a step, of one sample forward and "
        "backward, is an estimate. Accuracy, where it was measured, stands below the name.\n\n"
        "`benchmarks/gallery.py --shared ../shared > docs/gallery.md` writes this page. "
        "[All boards](boards.md); [how good the estimates of time are](measurements/boards.md)."
    )
    for name, (what, measured) in MODELS.items():
        path = demo.MODEL if name == "fashion" else shared / "models" / f"{name}.tflite"
        print(f"\n## {what}\n\n`{path.name}`; accuracy: {measured}.\n")
        print(f"| {' | '.join(HEADERS)} |\n|---|---|---:|---:|---:|")
        for row in rows(path, NEW_CLASSES.get(name)):
            print(f"| {' | '.join(row)} |")


def rows(path: Path, classes: int | None) -> Iterator[tuple[str, ...]]:
    """What fits of a model, a board at a time."""
    graph = mcutrain.load(path)
    for board in BOARDS:
        for scheme in SCHEMES:
            try:
                found = mcutrain.plan(graph, scheme, classes=classes, board=board)
            except McutrainError:
                continue
            target, facts = found.board, found.to_dict()["board"]
            assert target is not None
            code = code_sizes(target.costs)
            flash = None if code is None else flash_bytes(found.step.plan.training, code)
            time = facts["step_time"]
            yield (
                board,
                f"`{scheme}`",
                f"{facts['sram_bytes']:,}",
                "" if flash is None else f"{flash:,}",
                "" if time is None or time["ms"] is None else f"{time['ms']:,.0f}",
            )


if __name__ == "__main__":
    main()
