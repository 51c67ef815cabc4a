"""mcutrain quantize: a float model becomes an int8 one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show, show_json, show_prose, show_table
from mcutrain.cli.shared_flags import Json, argument, option, written
from mcutrain.errors import NoiseError
from mcutrain.functions.options import Seed
from mcutrain.functions.quantize_options import CalibrationOptions, InputOptions, QuantizeOptions

if TYPE_CHECKING:
    from mcutrain.functions.quantizing import QuantizedModel
    from mcutrain.quant import LayerError

FORMATS = (".tflite", ".onnx")
HURTING = 3
"""How many layers the report names as those that hurt most."""

FloatFile = Annotated[
    Path,
    argument("MODEL", "A float .onnx or .tflite file."),
]
Calibration = Annotated[
    Path,
    option(
        "Samples like those the model was trained on: whatever --data of `mcutrain simulate` "
        "takes, or a folder of images or sounds; labels are not needed."
    ),
]
Output = Annotated[
    Path | None,
    written(
        "FILE",
        "Where to write: .tflite or .onnx (QDQ); MODEL.int8.tflite by default, .onnx if "
        "no .tflite file can hold it.",
    ),
]


def quantize(
    model: FloatFile,
    calibration: Calibration,
    output: Output = None,
    *,
    reading: CalibrationOptions,
    taking: InputOptions,
    method: QuantizeOptions,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Quantize a float model to int8, with weights per channel and ranges from samples.

    Batch norm and preprocessing are folded, activations fused, channel ranges evened out, biases
    corrected; what is tried is kept only if the outputs' error gets smaller.

    Example: `mcutrain quantize model.onnx --calibration images/ --pixels 0,1 -o model.int8.tflite`
    """
    from mcutrain.functions.quantizing import quantize as quantized

    _check_format(output)
    try:
        result = quantized(
            model,
            calibration,
            output or Path(),
            reading=reading,
            taking=taking,
            method=method,
            seed=seed,
            listener=OnScreen(json),
        )
    except NoiseError as error:
        if error.layers and not json:
            _print_layers(error.layers)
        raise
    if result.warning:
        say(f"mcutrain: warning: {result.warning}")
    facts = _facts(model, result)
    if json:
        show_json({**facts, "layers": [asdict(layer) for layer in result.layers]})
    else:
        _print(facts, result.layers)


def _check_format(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in FORMATS:
        raise typer.BadParameter(
            f"{output} must end with .tflite or .onnx: it is the file to write; an output of the "
            "model is named by --model-output",
            param_hint="--output",
        )


def _facts(model: Path, made: QuantizedModel) -> dict[str, Any]:
    """Return what was done, for --json."""
    graph, path = made.result.graph, made.path
    assert path is not None, "the command always writes"
    x, y = (graph.tensors[name].type for name in (graph.inputs[0], graph.outputs[0]))
    facts = {
        "model": str(model),
        "file": str(path),
        "size_bytes": path.stat().st_size,
        "samples": made.samples,
        "read_as": made.read_as,
        "chosen": asdict(made.result.chosen),
        "tried": [asdict(trial) for trial in made.result.trials],
        "input": {
            "shape": x.shape,
            "scale": x.scale,
            "zero_point": x.zero_point,
            "ids": graph.vocabulary(graph.inputs[0]),
        },
        "turned": made.turned,
        "output": {"shape": y.shape, "scale": y.scale, "zero_point": y.zero_point},
        "note": made.note,
        "warning": made.warning,
        "mae": made.mae,
    }
    return {**facts, "compared_samples": made.compared} if made.layers else facts


def _print(facts: dict[str, Any], layers: tuple[LayerError, ...]) -> None:
    if layers:
        _print_layers(layers)
        count = facts["compared_samples"]
        show(f"of              the first {count} sample{'s' if count > 1 else ''}")
    chosen = facts["chosen"]
    steps = [
        f"ranges by {chosen['ranges']}",
        *(["channels equalized"] if chosen["equalized"] else []),
        *(["biases corrected"] if chosen["bias_corrected"] else []),
    ]
    show(f"read as         {facts['model']}: {facts['read_as']}")
    show(f"quantized       {', '.join(steps)}; {facts['samples']} samples")
    show(f"outputs         {chosen['snr_db']:.1f} dB signal to noise")
    if facts["mae"] is not None:
        before, after = facts["mae"]
        show(f"targets         MAE {before:.4g} by the float model, {after:.4g} by the int8 one")
    x = facts["input"]
    taken = f"scale {x['scale']:.6g}, zero point {x['zero_point']}"
    if x["ids"]:
        taken = f"token ids, 0 to {x['ids'] - 1}"
    show(f"input           {taken}")
    if facts["turned"]:
        show_prose(f"turned          {facts['turned']}")
    show(f"written         {facts['file']}, {facts['size_bytes']:,} bytes")
    if facts["note"]:
        show_prose(f"note            {facts['note']}")


def _print_layers(layers: tuple[LayerError, ...]) -> None:
    columns = ("layer", "operator", "scale", "SNR dB", "outputs if alone, dB")
    rows = [
        [
            layer.name,
            layer.operator,
            f"{layer.scale:.4g}",
            f"{layer.snr_db:.1f}",
            None if layer.alone_db is None else f"{layer.alone_db:.1f}",
        ]
        for layer in layers
    ]
    show_table(columns, rows, left=2)
    ranked = sorted(
        (layer for layer in layers if layer.alone_db is not None),
        key=lambda layer: layer.alone_db or 0.0,
    )
    names = ", ".join(layer.name for layer in ranked[:HURTING])
    show(f"hurt most       {names}")
