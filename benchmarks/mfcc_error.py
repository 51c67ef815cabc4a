"""How far integer MFCCs are from those in double precision, in steps of a model's input.

Takes a folder of WAV files for each class, mixes noise in where asked, and runs an int8 keyword
model on both. Where `pip install cmsisdsp` was done, CMSIS-DSP's mfcc_q15 stands beside.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter
from rich.console import Console
from rich.table import Table

from mcutrain.data import mfcc as real
from mcutrain.data._sounds import read_sound
from mcutrain.frontends import mfcc

CLASSES = (
    "Down",
    "Go",
    "Left",
    "No",
    "Off",
    "On",
    "Right",
    "Stop",
    "Up",
    "Yes",
    "Silence",
    "Unknown",
)
Sound = npt.NDArray[np.int16]
Inputs = npt.NDArray[np.int8]


class Model:
    """An int8 keyword model of 49 x 10 MFCCs."""

    def __init__(self, path: Path) -> None:
        self._interpreter = Interpreter(str(path))
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]
        self._output = self._interpreter.get_output_details()[0]["index"]
        self.scale, self.zero_point = self._input["quantization"]

    def quantized(self, features: npt.NDArray[np.floating]) -> Inputs:
        """Real MFCCs as its input."""
        steps = np.rint(features.astype(np.float64) / self.scale) + self.zero_point
        return np.clip(steps, -128, 127).astype(np.int8)

    def answer(self, x: Inputs) -> int:
        """The class that it hears."""
        self._interpreter.set_tensor(self._input["index"], x.reshape(self._input["shape"]))
        self._interpreter.invoke()
        return int(self._interpreter.get_tensor(self._output).argmax())


def ours(model: Model) -> Callable[[Sound], Inputs]:
    """The integer MFCCs."""
    how = mfcc.MfccQuantization.of(model.scale, model.zero_point)

    def made(x: Sound) -> Inputs:
        return mfcc.quantized(mfcc.features(x)[0], int(x.max()), how)

    return made


def by_cmsis(model: Model) -> Callable[[Sound], Inputs] | None:
    """CMSIS-DSP's of the same window, bands and cosines; None if it is not installed.

    It divides each frame by its own largest sample on the way and multiplies again, and has no
    floor but its smallest number. The division by the sound's largest sample is done as ours does.
    """
    try:
        import cmsisdsp as dsp
    except ImportError:
        return None

    def fixed(x: npt.NDArray[np.float64]) -> npt.NDArray[np.int16]:
        return np.clip(np.rint(x * 2.0**15), -(2.0**15), 2.0**15 - 1).astype(np.int16)

    bands = real.mel_bands()
    used = [np.flatnonzero(band) for band in bands.T]
    weights = np.concatenate([bands[bins, i] for i, bins in enumerate(used)])
    window = np.zeros(512)
    window[:480] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    rows, columns = np.arange(10)[:, np.newaxis], np.arange(40)
    dct = np.sqrt(2 / 40) * np.cos(np.pi * rows * (columns + 0.5) / 40)
    instance = dsp.arm_mfcc_instance_q15()
    first, lengths = [int(bins[0]) for bins in used], [len(bins) for bins in used]
    tables = (fixed(dct.reshape(-1)), first, lengths, fixed(weights), fixed(window))
    assert dsp.arm_mfcc_init_q15(instance, 512, 40, 10, *tables) == 0
    work = np.zeros(2048, np.int32)

    def made(x: Sound) -> Inputs:
        frames = np.lib.stride_tricks.sliding_window_view(x, 480)[:: mfcc.STEP][: real.FRAMES]
        found = np.zeros((real.FRAMES, 10))
        for row, frame in zip(found, frames, strict=True):
            padded = np.zeros(512, np.int16)
            padded[:480] = frame
            _, values = dsp.arm_mfcc_q15(instance, padded, work)
            row[:] = np.asarray(values) / 2.0**7
        found[:, 0] -= mfcc.level(int(x.max())) / 2**mfcc.BITS
        return model.quantized(found)

    return made


def sounds(folder: Path, limit: int) -> list[tuple[int, Sound]]:
    """Class and sound of up to `limit` files of each folder; the loud part is in the middle."""
    found = []
    for label, name in enumerate(CLASSES):
        paths = sorted((folder / name).glob("*.wav"))
        for path in paths[:: max(1, len(paths) // limit)][:limit]:
            samples = np.clip(np.rint(read_sound(path) * 32768), -32768, 32767)
            found.append((label, centred(samples.astype(np.int16))))
    return found


def centred(x: Sound) -> Sound:
    """Shifted, with zeros at the end that becomes free."""
    power = x.astype(np.float64) ** 2
    middle = round(float((power * np.arange(len(x))).sum() / max(power.sum(), 1)))
    shift, found = len(x) // 2 - middle, np.zeros_like(x)
    if shift >= 0:
        found[shift:] = x[: len(x) - shift]
    else:
        found[:shift] = x[-shift:]
    return found


def with_noise(clips: list[tuple[int, Sound]], folder: Path) -> list[tuple[int, Sound]]:
    """Each 0 to 30 dB quieter, with a piece of noise at up to a 20th of its loudness."""
    random = np.random.default_rng(0)
    noise = [read_sound(path) for path in sorted(folder.glob("*.wav"))]
    found = []
    for label, clip in clips:
        piece = np.roll(noise[random.integers(len(noise))], random.integers(16_000))
        mixed = clip * 10 ** random.uniform(-1.5, 0) + piece * 32768 * random.uniform(0, 0.05)
        found.append((label, np.clip(np.rint(mixed), -32768, 32767).astype(np.int16)))
    return found


def rows(
    model: Model, ways: Mapping[str, Callable[[Sound], Inputs]], clips: list[tuple[int, Sound]]
) -> list[tuple[str, ...]]:
    """A row of the table for each way."""
    exact = [model.quantized(real.mfcc(x / 32768)) for _, x in clips]
    labels = np.array([label for label, _ in clips])
    heard = np.array([model.answer(x) for x in exact])
    found = [("double precision", "", "", "", "", f"{100 * np.mean(heard == labels):.2f}")]
    for name, way in ways.items():
        made = [way(x) for _, x in clips]
        apart = np.abs(
            np.array(made, np.int64).reshape(len(made), -1) - np.array(exact).reshape(len(made), -1)
        )
        answers = np.array([model.answer(x) for x in made])
        shares = [f"{100 * np.mean(condition):.3f}" for condition in (apart == 0, apart <= 1)]
        shares += [f"{apart.mean():.4f}", f"{100 * np.mean(answers == heard):.2f}"]
        found.append((name, *shares, f"{100 * np.mean(answers == labels):.2f}"))
    return found


def with_errors(
    model: Model, way: Callable[[Sound], Inputs], clips: list[tuple[int, Sound]], data: Path
) -> tuple[float, float, float]:
    """Percent right of recorded inputs (x, y), of those with errors, and of the same class.

    For keyword data that exist as MFCCs alone.
    """
    random, arrays = np.random.default_rng(0), np.load(data)
    errors = [way(x).astype(int) - model.quantized(real.mfcc(x / 32768)) for _, x in clips]
    heard, answers = [], []
    for x in arrays["x"]:
        error = errors[random.integers(len(errors))]
        heard.append(model.answer(x))
        changed = x.reshape(error.shape) + error
        answers.append(model.answer(np.clip(changed, -128, 127).astype(np.int8)))
    y, before, after = arrays["y"], np.array(heard), np.array(answers)
    shares = (before == y, after == y, before == after)
    first, second, third = (100 * float(np.mean(share)) for share in shares)
    return first, second, third


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="kws_ref_model.tflite")
    parser.add_argument("--sounds", type=Path, required=True, help="a folder for each class")
    parser.add_argument("--noise", type=Path, help="WAV files to mix in")
    parser.add_argument("--data", type=Path, help="kws01.npz: its inputs get the errors of clips")
    parser.add_argument("--limit", type=int, default=1000, help="files of a class")
    arguments = parser.parse_args()
    model = Model(arguments.model)
    ways = {"integers": ours(model)}
    cmsis = by_cmsis(model)
    if cmsis is not None:
        ways["CMSIS-DSP mfcc_q15"] = cmsis
    clips = sounds(arguments.sounds, arguments.limit)
    sets = {"as they are": clips}
    if arguments.noise:
        sets["quieter, with noise"] = with_noise(clips, arguments.noise)
    heads = ("% equal", "% within 1", "mean steps apart", "% same class", "% right")
    table = Table("sounds", "MFCCs", *heads)
    for name, chosen in sets.items():
        for row in rows(model, ways, chosen):
            table.add_row(f"{len(chosen)} {name}", *row)
    Console(width=120).print(table)
    if arguments.data:
        for name, way in ways.items():
            before, after, same = with_errors(model, way, clips, arguments.data)
            print(
                f"{arguments.data.name}: {before:.2f} % right, with errors of {name} {after:.2f} %,"
            )
            print(f"the same class {same:.2f} %")


if __name__ == "__main__":
    main()
