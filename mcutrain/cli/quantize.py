"""mcutrain quantize: a float model becomes an int8 one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli.options import Json, Seed, parse_number, parse_numbers
from mcutrain.cli.output import check_writable, say, show, show_json, show_table
from mcutrain.cli.training import counting
from mcutrain.functions.options import Mean, Std
from mcutrain.functions.run_options import ClassNames, Stride, normalization_of

if TYPE_CHECKING:
    from mcutrain.data import Normalization
    from mcutrain.formats import FloatModel
    from mcutrain.quant import LayerError, Quantization, Quantized, QuantizeSettings

FORMATS = (".tflite", ".onnx")
HURTING = 3
"""How many layers the report names as those that hurt most."""

FloatFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A float .onnx or .tflite file.", show_default=False),
]
Calibration = Annotated[
    Path,
    typer.Option(
        help="Samples like those the model was trained on: whatever --data of `mcutrain simulate` "
        "takes, or a folder of images or WAV files; labels are not needed.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write: .tflite or .onnx (QDQ); MODEL.int8.tflite by default, .onnx if "
        "no .tflite file can hold it.",
        show_default=False,
    ),
]
Pixels = Annotated[
    str | None,
    typer.Option(
        parser=parse_numbers,
        metavar="LOW,HIGH",
        help="The real numbers that the model takes for pixels 0 and 255, such as 0,1 or -1,1 or "
        "0,255; or give --mean and --std.",
        show_default=False,
    ),
]
Choice = Annotated[
    Literal["auto", "on", "off"],
    typer.Option(help="auto keeps it if the outputs' error on the samples is smaller."),
]


@dataclass(frozen=True)
class InputFlags:
    """Flags of what the model's input takes."""

    pixels: Pixels = None
    mean: Mean = None
    std: Std = None
    input_scale: Annotated[
        float | None,
        typer.Option(
            parser=parse_number,
            metavar="X",
            help="Scale of the int8 input, which int8 samples were quantized with.",
            show_default=False,
        ),
    ] = None
    input_zero_point: Annotated[int, typer.Option(min=-128, max=127, help="See --input-scale.")] = 0

    @property
    def normalization(self) -> Normalization | None:
        """How pixels were normalized, from --pixels or from --mean and --std."""
        from mcutrain.data import Normalization

        if self.pixels is None:
            return normalization_of(self.mean, self.std)
        numbers = [parse_number(part) for part in self.pixels.split(",")]
        if len(numbers) != 2 or not numbers[0] < numbers[1]:
            raise typer.BadParameter("give two numbers, LOW below HIGH", param_hint="--pixels")
        if self.mean is not None or self.std is not None:
            raise typer.BadParameter("give --pixels, or --mean and --std", param_hint="--pixels")
        return Normalization.of_range(*numbers)

    @property
    def quantization(self) -> Quantization | None:
        """Quantization of the int8 input, if it is given."""
        import numpy as np

        from mcutrain.quant import Quantization

        scale = self.input_scale
        if scale is None:
            return None
        if not 1e-30 < scale < 1e30:
            raise typer.BadParameter("a scale is positive and finite", param_hint="--input-scale")
        return Quantization(float(np.float32(scale)), self.input_zero_point)


@dataclass(frozen=True)
class QuantizeFlags:
    """Flags of what is tried to get a small error."""

    ranges: Annotated[
        Literal["auto", "minmax", "percentile", "mse"],
        typer.Option(
            "--range",
            help="How ranges of activations follow from the samples; auto tries all and keeps the "
            "one with the least error at the outputs.",
        ),
    ] = "auto"
    percentile: Annotated[
        float, typer.Option(min=50, max=100, help="How many percent of the numbers it keeps.")
    ] = 99.99
    equalize: Choice = "auto"
    bias_correction: Choice = "auto"

    def settings(self, given: Quantization | None) -> QuantizeSettings:
        """given: of the input."""
        from mcutrain.quant import QuantizeSettings

        return QuantizeSettings(
            self.ranges, self.percentile, self.equalize, self.bias_correction, given
        )


def quantize(
    model: FloatFile,
    calibration: Calibration,
    output: Output = None,
    samples: Annotated[int, typer.Option(min=1, help="Calibration samples.")] = 200,
    *,
    taking: InputFlags,
    method: QuantizeFlags,
    report: Annotated[
        bool, typer.Option("--report", help="Show each layer's error and the layers that hurt.")
    ] = False,
    stride: Stride = None,
    class_names: ClassNames = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Quantize a float model to int8, with weights per channel and ranges from samples.

    Batch norm and preprocessing are folded, activations fused, channel ranges evened out, biases
    corrected; what is tried is kept only if the outputs' error gets smaller.

    Example: `mcutrain quantize model.onnx --calibration images/ --pixels 0,1 -o model.int8.tflite`
    """
    from mcutrain.formats import (
        as_format,
        format_of_quantized,
        load,
        read_float,
        with_class_names,
        write,
    )
    from mcutrain.functions.calibration import Given
    from mcutrain.oracle.original import compare_with_original
    from mcutrain.quant import compared_samples, layer_errors, named_as

    _check_format(output)
    names = tuple(class_names or ())
    found = read_float(model)
    if found.several_outputs:
        _note(found.several_outputs)
    suffix = format_of_quantized(found.network, output)
    path = output or Path(f"{model.stem}.int8{suffix}")
    check_writable(path)
    with counting("quantize", json) as tell:
        given = Given(calibration, samples, seed, taking.normalization, tell, _note, stride)
        x, quantization = given.read(found.input_order, taking.quantization)
        tell("comparing with the file's own runtime", 0, 1)
        compared = compare_with_original(found, x)
        result = found.quantize(x, method.settings(quantization), tell)
        if names:
            result = replace(result, graph=with_class_names(result.graph, names))
        for text in result.notes:
            _note(text)
        layers = layer_errors(result, x, tell) if report else ()
        poor = _poor(result, x, () if json else layers)
        tell("writing", 0, 1)
        note = write(as_format(result.graph, path), path, description="quantized by mcutrain")
        if layers:
            layers = named_as(layers, load(path))
    if poor:
        say(f"mcutrain: warning: {poor}")
    facts = {**_facts(found, result, path, len(x), compared), "note": note, "warning": poor}
    if layers:
        facts["compared_samples"] = compared_samples(result, len(x))
    if json:
        show_json({**facts, "layers": [asdict(layer) for layer in layers]})
    else:
        _print(facts, layers)


def _check_format(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in FORMATS:
        raise typer.BadParameter(
            f"{output} must end with .tflite or .onnx: it is the file to write; an output of the "
            "model is named by --model-output",
            param_hint="--output",
        )


def _note(text: str) -> None:
    say(f"mcutrain: note: {text}")


def _poor(result: Quantized, x: Any, layers: tuple[LayerError, ...]) -> str:
    """Return what is wrong with the outputs, if anything; the layers are shown before a refusal."""
    from mcutrain.errors import DataError
    from mcutrain.quant import useful

    try:
        return useful(result, x)
    except DataError:
        if layers:
            _print_layers(layers)
        raise


def _facts(
    model: FloatModel, result: Quantized, path: Path, samples: int, compared: str
) -> dict[str, Any]:
    """Return what was done, for --json."""
    graph = result.graph
    x, y = (graph.tensors[name].type for name in (graph.inputs[0], graph.outputs[0]))
    return {
        "model": str(model.path),
        "file": str(path),
        "size_bytes": path.stat().st_size,
        "samples": samples,
        "read_as": compared,
        "chosen": asdict(result.chosen),
        "tried": [asdict(trial) for trial in result.trials],
        "input": {"shape": x.shape, "scale": x.scale, "zero_point": x.zero_point},
        "turned": _turned(model, path),
        "output": {"shape": y.shape, "scale": y.scale, "zero_point": y.zero_point},
    }


def _turned(model: FloatModel, path: Path) -> str:
    """How the int8 file's input relates to the float file's; nothing where it is the same."""
    order = model.input_order
    if not order.is_turned or path.suffix.lower() == ".onnx":
        return ""
    there, here = order.names or (order.shape, order.model_shape)
    return (
        f"input {_axes(order.shape)} of {order.file}, {_axes(there)}, is {_axes(order.model_shape)}"
        f", {_axes(here)}, in {path.name}; mcutrain turns samples of the former"
    )


def _axes(axes: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, axes))})"


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
    show(
        f"input           scale {facts['input']['scale']:.6g}, "
        f"zero point {facts['input']['zero_point']}"
    )
    if facts["turned"]:
        show(f"turned          {facts['turned']}")
    show(f"written         {facts['file']}, {facts['size_bytes']:,} bytes")
    if facts["note"]:
        show(f"note            {facts['note']}")


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
