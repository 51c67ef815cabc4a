"""Small models and data that once failed: which are read rightly, and which are refused rightly.

    .venv/bin/python benchmarks/cases.py --shared ../shared
    .venv/bin/python benchmarks/cases.py --shared ../shared --only 93 118

Each folder of cases is copied to a temporary place, where its own `make.py` writes model and
data. Then the commands of mcutrain run as a user runs them. A case is

    read      the commands end with 0, and what they made agrees with the format's own runtime
    refused   a command ends with 2 and one sentence, and nothing is written
    WRONG     anything else: a traceback, a crash, numbers that differ, a sentence without the cause

It ends with 1 if a case is wrong. Needs mcutrain[images,oracle], and a C compiler as `cc`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from rich.console import Console

from mcutrain.formats.input_order import KEY
from mcutrain.formats.metadata import read_metadata

LEAST_DB = 25.0
"""Least signal-to-noise ratio of an int8 file's outputs against the float file's."""
LARGEST_LOSS = 3.0
"""Points of accuracy that quantization may cost; 200 and more samples are counted."""
MOST_DIFFERING = 1.0
"""Per cent of a tensor's numbers that may differ from onnxruntime, in the median tensor: where a
real number lies between two integers, single precision decides otherwise than fixed point. Small
tensors behind such a number have a larger share."""
LARGEST_MEAN = 0.05
"""Largest mean difference, in steps: rounding twice moves all numbers of a tensor to one side."""
TIMEOUT_SECONDS = 300
ERROR = "mcutrain: error: "


class WrongError(Exception):
    """What is wrong with a case, in a line."""


@dataclass(frozen=True)
class Done:
    """How a command ended, with all that it printed."""

    code: int
    text: str

    @property
    def refusal(self) -> str:
        """The sentence of an exit with 2; nothing for another exit, raises for a bad one."""
        if "Traceback" in self.text:
            raise WrongError("a traceback: " + self.text.strip().splitlines()[-1])
        if self.code == 0:
            return ""
        if self.code != 2 or ERROR not in self.text:
            raise WrongError(f"exit code {self.code}: {self.text.strip()[-200:]}")
        return " ".join(self.text.split(ERROR, 1)[1].split())


@dataclass(frozen=True)
class Verdict:
    """refused: whether a sentence is the answer. text: the sentence, or the numbers."""

    refused: bool
    text: str


class Folder:
    """One case, copied, with its model and data made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        bin_folder = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }
        maker = path / "make.py"
        if maker.exists() and maker.read_text().count("\n") > 1:
            made = self.run("python", "make.py")
            if made.code:
                raise WrongError(f"make.py failed: {made.text.strip()[-200:]}")

    def run(self, *command: str) -> Done:
        """Run a command in the folder."""
        try:
            done = subprocess.run(
                command,
                cwd=self.path,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WrongError(f"{command[:2]} takes more than {TIMEOUT_SECONDS} s") from error
        return Done(done.returncode, done.stdout.decode(errors="replace"))

    def mcutrain(self, *arguments: str) -> Done:
        """Run a command of mcutrain."""
        return self.run("mcutrain", *arguments)

    def must(self, *command: str) -> str:
        """What a command prints that has to end with 0."""
        done = self.run(*command)
        if done.code:
            raise WrongError(f"{' '.join(command[:2])}: {done.text.strip()[-200:]}")
        return done.text


Judge = Callable[[Folder], Verdict]

# ------------------------------------------------------------------------------------- the judges


def quantized(folder: Folder, model: str, *flags: str) -> Verdict | None:
    """Quantize to m.int8.tflite: the refusal, or None when the file is there."""
    output = folder.path / "m.int8.tflite"
    done = folder.mcutrain("quantize", model, "--calibration", "d.npz", *flags, "-o", output.name)
    sentence = done.refusal
    if not sentence:
        return None
    if output.exists():
        raise WrongError("refused, and written all the same")
    return Verdict(True, sentence)


def float_model(folder: Folder) -> Verdict:
    """A float file in int8: equal to its own runtime, or refused."""
    model = "m.onnx" if (folder.path / "m.onnx").exists() else "m.tflite"
    refused = quantized(folder, model)
    if refused:
        return refused
    printed = folder.must("python", "../ortcmp.py", model, "m.int8.tflite", "d.npz")
    found = re.search(r"SNR ([-\d.]+) dB", printed)
    if not found or float(found[1]) < LEAST_DB:
        raise WrongError(f"the int8 file against the float file: {printed.strip()}")
    return Verdict(False, f"{found[1]} dB to the float file")


def turned_input(folder: Folder) -> Verdict:
    """A square input of channels first: the int8 file is fed as its own metadata says."""
    refused = quantized(folder, "m.onnx")
    if refused:
        return refused
    said = json.loads(read_metadata(folder.path / "m.int8.tflite").get(KEY, b"{}"))
    x = np.load(folder.path / "d.npz")["x"].astype(np.float32)
    axes = said.get("axes", list(range(x.ndim - 1)))
    floats = onnxruntime.InferenceSession(folder.path / "m.onnx")
    int8 = Interpreter(
        str(folder.path / "m.int8.tflite"),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    int8.allocate_tensors()
    (given,), (answer,) = int8.get_input_details(), int8.get_output_details()
    error = power = 0.0
    for sample in x:
        wanted = floats.run(None, {floats.get_inputs()[0].name: sample[None]})[0]
        scale, zero_point = given["quantization"]
        q = np.clip(np.round(sample.transpose(axes) / scale) + zero_point, -128, 127)
        int8.set_tensor(given["index"], q.astype(np.int8).reshape(given["shape"]))
        int8.invoke()
        scale, zero_point = answer["quantization"]
        found = (int8.get_tensor(answer["index"]).astype(np.float64) - zero_point) * scale
        error += float(((found - wanted) ** 2).sum())
        power += float((wanted**2).sum())
    snr_db = 10 * math.log10(power / max(error, 1e-30))
    if snr_db < LEAST_DB:
        raise WrongError(f"fed in the order {axes}, {snr_db:.1f} dB to the float file")
    return Verdict(False, f"{snr_db:.1f} dB to the float file, fed as its metadata says: {axes}")


def node_by_node(folder: Folder) -> Verdict:
    """A QDQ file against onnxruntime without optimization, tensor by tensor."""
    folder.must("mcutrain", "verify", "m.onnx")
    printed = folder.must("python", "nodecmp.py", "m.onnx")
    rows = re.findall(r"differ +([\d.]+) % +mean ([-+\d.]+) +largest (\d+)", printed)
    if not rows:
        raise WrongError(f"no tensor compared: {printed.strip()[-200:]}")
    share, mean = median(float(r[0]) for r in rows), max(abs(float(r[1])) for r in rows)
    text = f"{share} % of a tensor's numbers differ, at most {mean} of a step in a tensor's mean"
    if share > MOST_DIFFERING or mean > LARGEST_MEAN or any(int(r[2]) > 1 for r in rows):
        raise WrongError(text)
    return Verdict(False, text)


def before(folder: Folder, model: str, data: str) -> float:
    """Accuracy of an int8 file on a data set before it is trained, per cent."""
    printed = folder.must(
        *("mcutrain", "simulate", model, "--data", data),
        *("--scheme", "head", "--epochs", "1", "--lr", "0.0001"),
    )
    found = re.search(r"test accuracy +([\d.]+) % before", printed)
    if not found:
        raise WrongError(f"no accuracy before training: {printed.strip()[-200:]}")
    return float(found[1])


def same_accuracy(prepare: str, data: tuple[str, ...], pixels: str = "") -> Judge:
    """An image model on samples in its own order: the accuracy that make.py's float network has.

    prepare: Python that makes the calibration set. data: sets on which the int8 file must be right.
    """

    def judge(folder: Folder) -> Verdict:
        printed = folder.must("python", "make.py")
        found = re.search(r"float: ([\d.]+) %", printed)
        wanted = float(found[1]) if found else 100.0
        if prepare:
            folder.must("python", "-c", prepare)
        flags = ("--pixels", pixels) if pixels else ()
        calibration = data[0]
        done = folder.mcutrain(
            "quantize", "m.onnx", "--calibration", calibration, *flags, "-o", "m.int8.tflite"
        )
        if done.refusal:
            raise WrongError(f"quantize: {done.refusal}")
        shares = [before(folder, "m.int8.tflite", one) for one in data]
        if min(shares) < wanted - LARGEST_LOSS:
            raise WrongError(f"{wanted} % as float, {shares} % as int8 on {data}")
        return Verdict(False, f"{wanted} % as float, {shares} % as int8 on {', '.join(data)}")

    return judge


def sanitized_library(folder: Folder) -> Verdict:
    """The library that users get runs under both sanitizers."""
    refused = quantized(folder, "m.onnx", "--samples", "40")
    if refused:
        return refused
    folder.must("mcutrain", "generate", "m.int8.tflite", "--scheme", "last:1", "-o", "project")
    sources = sorted(str(p.relative_to(folder.path)) for p in folder.path.glob("project/src/*.c"))
    folder.must(
        *("cc", "-std=c11", "-O1", "-g", "-fsanitize=address,undefined"),
        *("-fno-sanitize-recover=all", "-Iproject/src", "project/example/main.c", *sources),
        *("-o", "program"),
    )
    folder.must("./program")
    return Verdict(False, "the emitted library trains under ASan and UBSan")


def trains(*flags: str) -> Judge:
    """A model that is quantized and trained, or whose training is refused."""

    def judge(folder: Folder) -> Verdict:
        refused = quantized(folder, "m.onnx")
        if refused:
            return refused
        done = folder.mcutrain("simulate", "m.int8.tflite", "--data", "d.npz", *flags)
        return Verdict(bool(done.refusal), done.refusal or "quantized and trained")

    return judge


def saves(board: str, value: str) -> Judge:
    """A confirmed save is what a power cut leaves, whatever a remembered latent holds."""

    def judge(folder: Folder) -> Verdict:
        printed = folder.must("python", "run.py", board, value)
        if "state is the saved one: True" not in printed:
            raise WrongError(printed.strip().splitlines()[-1])
        return Verdict(False, printed.strip().splitlines()[-1])

    return judge


def choice_goes_on(board: str) -> Judge:
    """After a cut in a save a run with --elastic goes on, or the board was refused."""

    def judge(folder: Folder) -> Verdict:
        done = folder.run("python", "run.py", board, "program", "3")
        last = done.text.strip().splitlines()[-1]
        if done.code:
            if re.match(r"mcutrain(_host)?\.errors\.\w+: ", last):
                return Verdict(True, last.split(": ", 1)[1])
            raise WrongError(last)
        if "--fresh" in last:
            raise WrongError(last)
        return Verdict(False, last)

    return judge


@dataclass(frozen=True)
class Said:
    """What a data set of a folder must lead to. text: part of what is printed, if anything."""

    code: int
    text: str = ""
    never: str = ""


def data_sets(pattern: str, model: str, expected: dict[str, Said]) -> Judge:
    """Every data set of a folder is read or refused; those that are named, as expected."""

    def judge(folder: Folder) -> Verdict:
        read = refused = 0
        for path in sorted(folder.path.glob(pattern)):
            if path.name in ("__pycache__",) or not (path.is_dir() or path.suffix == ".csv"):
                continue
            done = folder.mcutrain(
                *("simulate", model, "--data", path.name),
                *("--scheme", "head", "--epochs", "1", "--lr", "0.02"),
            )
            try:
                sentence = done.refusal
            except WrongError as error:
                raise WrongError(f"{path.name}: {error}") from error
            read, refused = read + (not sentence), refused + bool(sentence)
            said = expected.get(path.name, Said(done.code))
            text = " ".join(done.text.split())
            if done.code != said.code:
                raise WrongError(f"{path.name}: {sentence or 'read'}")
            if said.text not in text:
                raise WrongError(f"{path.name}: {said.text!r} is not said: {text[-200:]}")
            if said.never and said.never in text:
                raise WrongError(f"{path.name}: {said.never!r} is said")
        return Verdict(False, f"{read} data sets read, {refused} refused with a sentence")

    return judge


F_NPZ = """
import numpy as np; d = np.load('d.npz'); g = lambda a: (a[..., None] / np.float32(255))
np.savez('f.npz', **{k: (g(d[k]).astype(np.float32) if k[0] == 'x' else d[k]) for k in d.files})
"""
"""Images of tf2onnx' case with their one channel last, as real numbers."""

JUDGES: dict[str, Judge] = {
    "101-tf-separable-globalmax-float": float_model,
    "103-tf-up-transpose-float": float_model,
    "106-tf-squeeze-excite-float": float_model,
    "106-tf-squeeze-excite-int8": lambda folder: _info(folder, "m.tflite"),
    "118-conv1d-square": turned_input,
    "120-tf-layernorm-conv1d-float": float_model,
    "125-tf2onnx-one-channel": same_accuracy(F_NPZ, ("f.npz",)),
    "132-weight-standardization": float_model,
    "145-spatial-attention": float_model,
    "153-prelu-after-residual": sanitized_library,
    "75-fp16-model": float_model,
    "76-uint8-input-cast": float_model,
    "79-binary-one-output": trains("--scheme", "head"),
    "80-regression-sine": trains("--scheme", "last:1", "--loss", "mse"),
    "82-pads": float_model,
    "87-qdq-average-to-finer-scale": node_by_node,
    "88-qdq-rescale-rounds-twice": node_by_node,
    "90-images": data_sets(
        "*", "m.tflite", {"heic": Said(0, ".HEIC"), "upper": Said(0), "corrupt": Said(2, "00.png")}
    ),
    "91-csv": data_sets(
        "*.csv",
        "m.tflite",
        {"nan.csv": Said(2, "nan.csv", "/nan.csv"), "four_channels.csv": Said(2, "columns")},
    ),
    "93-mlp-28x28-flatten": same_accuracy("", ("d.npz", "images"), "0,1"),
    "94-wav": data_sets("*", "m.tflite", {"i24ext": Said(0), "f32ext": Said(0), "alaw": Said(2)}),
    "elastic-one-record": choice_goes_on("nucleo-f303re"),
    "lost-save": saves("nucleo-f446re", "-1"),
}


def _info(folder: Folder, model: str) -> Verdict:
    done = folder.mcutrain("info", model)
    return Verdict(bool(done.refusal), done.refusal or "read")


# ------------------------------------------------------------------------------------ the command


def main() -> int:
    """Judge the cases, print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True, help="the folder that holds cases/")
    parser.add_argument("--only", nargs="*", default=[], help="cases that begin so")
    arguments = parser.parse_args()
    source = arguments.shared / "cases"
    if not source.is_dir():
        parser.error(f"{source} is no folder")
    names = sorted(p.name for p in source.iterdir() if p.is_dir() and p.name[0] not in "_.")
    chosen = [n for n in names if not arguments.only or n.startswith(tuple(arguments.only))]
    console = Console(soft_wrap=True)
    counts = {"read": 0, "refused": 0, "WRONG": 0}
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "cases"
        shutil.copytree(source, copied)
        for path in (copied, *copied.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        for name in chosen:
            verdict, text = judged(copied / name)
            counts[verdict] += 1
            console.print(f"{verdict:8} {name:34} {text}", highlight=False, markup=False)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int(counts["WRONG"] > 0)


def judged(path: Path) -> tuple[str, str]:
    """The verdict on a case, and why."""
    judge = JUDGES.get(path.name)
    if judge is None:
        return "WRONG", "no judge knows this case"
    try:
        verdict = judge(Folder(path))
    except WrongError as error:
        return "WRONG", " ".join(str(error).split())
    return ("refused" if verdict.refused else "read"), verdict.text


if __name__ == "__main__":
    sys.exit(main())
