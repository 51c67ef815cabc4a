"""Fits the instruction model of mcutrain.cost.instructions to what virtual boards execute.

    .venv/bin/python benchmarks/instruction_model.py --shared ../shared --keep rows --write

Every kernel call of a training step is counted in the linked ELF (arm-none-eabi-gcc -O3), for
networks and schemes of all kinds, on a virtual Cortex-M4 (dsp; --check-m7 adds the M7), of
Cortex-M0+ code (armv6m) and Cortex-M3 code (portable) on the same board, which has the RAM, and in
QEMU on a Cortex-M55 (helium) and of portable bodies on RISC-V (rv32imc, by riscv_nodes.py). Least
squares of the relative error give each function's coefficients, none below zero. The table says
what each network's steps cost by a fit to all *other* networks (left out), and by the fit to all,
which --write puts into firmware/costs/.

--add: for new kernels, measure the networks that run them (--networks) and write only the
functions that the files do not have.
--keep DIR: measured counts, so that a fit is repeated in seconds. To count one of the sets takes
some ten minutes of a core.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from instruction_features import OTHER, features_of
from qemu_instructions import count_nodes
from riscv_nodes import count_nodes as count_on_riscv
from scipy.optimize import nnls

from mcutrain import demo
from mcutrain.codegen.firmware import FIRMWARE
from mcutrain.codegen.isa import row_of
from mcutrain.cost import instructions
from mcutrain.cost.counting import count_instructions
from mcutrain.data import Targets
from mcutrain.errors import McutrainError
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep, load, prepare
from mcutrain.sparse import parse_scheme
from mcutrain.target import BOARDS, Target, load_target
from mcutrain.update_rules import RULES, SGD

REPOSITORY = Path(__file__).parents[1]
CORES = {"armv6m": "cortex-m0plus", "portable": "cortex-m3"}
"""Sets without a board that has the RAM, and the cores whose code they are fitted to."""
CARRIER = "mps2-an386"
RISCV = "rv32imc"
"""Portable bodies on a core that takes other instructions for them: `costs` of a board."""
BOARDS_OF = {"dsp": CARRIER, "m7": "mps2-an500", "helium": "mps3-an547"}
"""A board with megabytes of RAM, for whatever the others have no room for."""
CONSERVATIVE = 0.9
"""Share of calls that the terms for unknown functions do not underestimate."""
DIGITS = 5
SPARSE = tuple(
    f"mct_{kind}_{name}"
    for kind in ("conv_2d", "grouped_conv_2d")
    for name in (
        *("update_weight_s8", "update_weight_s16", "adapt_weight_s8"),
        *("grad_weight_s8", "grad_weight_s16"),
    )
)
"""Functions that skip channels without a gradient: they are fitted to calls that skip few."""
DENSE, ROUNDS = 0.7, 5
"""Calls that take less than this share of their estimate are left out, so many times."""


@dataclass(frozen=True)
class Case:
    """A training step. name: the network's, and of the row. options: of `prepare`."""

    network: str
    scheme: str
    classes: int | None = None
    residual_bits: int = 4
    gradient_dtype: str = "int8"
    accumulate: int = 1
    loss: str = "cross-entropy"
    bias_bits: int = 32
    update_rule: str = SGD
    class_weights: str = ""
    distill: float = 0.0
    has_targets: bool = False

    @property
    def name(self) -> str:
        """For the table and the file."""
        extra = {
            "int16": self.gradient_dtype == "int16",
            f"x{self.accumulate}": self.accumulate > 1,
            self.loss: self.loss != "cross-entropy",
            self.update_rule: self.update_rule != SGD,
            "weighed": self.class_weights != "",
            "distilled": self.distill > 0,
            "targets": self.has_targets,
        }
        extra[f"r{self.residual_bits}"] = self.residual_bits != 4
        extra[f"b{self.bias_bits}"] = self.bias_bits != 32
        return "-".join(
            [self.network, self.scheme.replace(":", ""), *(k for k in extra if extra[k])]
        )


MADE = (
    *("made", "modern", "reproducing", "resizing", "cutting", "normalizing", "grouped"),
    *("attending", "segmenting", "averaging", "rescaling", "deciding", "dividing"),
    *("tagging", "weighing", "targeting", "detecting", "remembering", "recalling", "reading"),
)
"""Networks of tests/cost/networks.py, each with a number."""

WEIGHTS = tuple(",".join(["1", "2"] * (n // 2)) for n in (2, 4, 12, 40))
"""Of the classes of networks named weighing."""
CASES = (
    *(Case("fashion", s) for s in ("head", "bias:16", "fashion-sparse", "last:6", "full")),
    Case("fashion", "fashion-sparse", accumulate=4),
    Case("fashion", "last:8", accumulate=2),
    Case("fashion", "last:6", residual_bits=8),
    Case("fashion", "last:6", residual_bits=0),
    Case("fashion", "fashion-sparse", gradient_dtype="int16"),
    Case("fashion", "last:8", gradient_dtype="int16", accumulate=2),
    Case("fashion", "bias:16", bias_bits=16),
    Case("fashion", "bias:16", gradient_dtype="int16", bias_bits=16),
    Case("fashion", "bias:16", accumulate=2, bias_bits=16),
    *(Case("mcunet-5fps.int8", s, 10) for s in ("mcunet-5fps-49kb", "bias:12", "last:8")),
    Case("mcunet-5fps.int8", "bias:12", 10, bias_bits=16),
    *(Case("mbv2-w0.35.int8", s, 10) for s in ("mbv2-w0.35-49kb", "last:4", "bias:30")),
    *(Case("proxyless-w0.3.int8", s, 10) for s in ("proxyless-w0.3-49kb", "last:5")),
    Case("kws_ref_model", "full"),
    Case("kws_ref_model", "last:3"),
    Case("pretrainedResnet_quant", "full"),
    Case("pretrainedResnet_quant", "last:2"),
    Case("ad01_int8", "head"),
    Case("vww_96_int8", "last:6"),
    Case("vww_96_int8", "bias:10"),
    *(Case(f"made-{i}", s) for i in range(4) for s in ("full", "bias:3")),
    *(Case(f"made-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"made-{i}", "full", accumulate=3) for i in (0, 1)),
    *(Case(f"made-{i}", "bias:3", bias_bits=16) for i in range(4)),
    *(Case(f"made-{i}", "bias:3", gradient_dtype="int16", bias_bits=16) for i in range(4)),
    *(Case(f"made-{i}", "bias:3", accumulate=2, bias_bits=16) for i in range(4)),
    *(Case(f"made-{i}", "0:0.6") for i in (1, 2, 3)),  # the input's channels cannot be permuted
    *(Case(f"modern-{i}", "full") for i in range(4)),
    *(Case(f"modern-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"grouped-{i}", "full") for i in range(4)),
    *(Case(f"grouped-{i}", "full", residual_bits=8 * (i - 1)) for i in (1, 2)),
    *(Case(f"grouped-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"grouped-{i}", "full", accumulate=3) for i in range(4)),
    *(Case(f"grouped-{i}", "full", gradient_dtype="int16", accumulate=3) for i in range(2)),
    *(Case(f"resizing-{i}", "full") for i in range(4)),
    *(Case(f"resizing-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"cutting-{i}", "full") for i in range(4)),
    *(Case(f"cutting-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"attending-{i}", "full") for i in range(4)),
    *(Case(f"attending-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(Case(f"normalizing-{i}", "full") for i in range(4)),
    *(Case(f"normalizing-{i}", "full", gradient_dtype="int16") for i in range(4)),
    *(
        Case(f"normalizing-{i}", "norm:5", gradient_dtype=dtype, **more)
        for i in range(4)
        for dtype in ("int8", "int16")
        for more in ({"bias_bits": 16}, {"accumulate": 3})
    ),
    *(Case(f"averaging-{i}", "head") for i in range(4)),
    *(Case(f"dividing-{i}", "head") for i in range(4)),
    *(Case(f"rescaling-{i}", "full") for i in range(4)),
    *(Case(f"deciding-{i}", "head") for i in range(4)),
    *(Case(f"deciding-{i}", "head", gradient_dtype="int16") for i in range(4)),
    *(Case(f"tagging-{i}", "head", loss="binary-cross-entropy") for i in range(4)),
    *(
        Case(f"tagging-{i}", "head", loss="binary-cross-entropy", gradient_dtype="int16")
        for i in range(4)
    ),
    *(Case(f"weighing-{i}", "head", class_weights=WEIGHTS[i]) for i in range(4)),
    *(
        Case(f"weighing-{i}", "head", gradient_dtype="int16", class_weights=WEIGHTS[i])
        for i in range(4)
    ),
    *(
        Case(f"targeting-{i}", "head", gradient_dtype=dtype, loss=loss, has_targets=True)
        for i in range(4)
        for dtype in ("int8", "int16")
        for loss in ("mse", "huber", "absolute")
    ),
    *(Case(f"detecting-{i}", "head") for i in range(4)),
    *(
        Case(f"{name}-{i}", "full", gradient_dtype=dtype)
        for name in ("remembering", "recalling")
        for i in range(6)
        for dtype in ("int8", "int16")
    ),
    *(
        Case(f"weighing-{i}", "head", gradient_dtype=dtype, distill=0.5)
        for i in range(4)
        for dtype in ("int8", "int16")
    ),
    *(Case(f"reading-{i}", "head") for i in range(4)),
    *(Case(f"segmenting-{i}", "head") for i in range(6)),
    *(Case(f"segmenting-{i}", "head", gradient_dtype="int16") for i in range(6)),
    *(
        replace(case, update_rule=rule)
        for rule in RULES
        if rule != SGD
        for case in (
            *(Case("fashion", s) for s in ("head", "fashion-sparse", "last:6")),
            Case("fashion", "last:8", accumulate=2),
            Case("fashion", "bias:16", bias_bits=16),
            *(Case(f"made-{i}", "full") for i in range(4)),
            *(Case(f"made-{i}", "full", accumulate=3) for i in (0, 1)),
            *(Case(f"made-{i}", "bias:3", accumulate=2, bias_bits=16) for i in range(2)),
            *(Case(f"grouped-{i}", "full") for i in range(4)),
            *(Case(f"normalizing-{i}", "norm:5", bias_bits=16 << i) for i in range(2)),
        )
    ),
    *(
        Case(f"reproducing-{i}", "head", gradient_dtype=dtype, loss="mse")
        for i in range(4)
        for dtype in ("int8", "int16")
    ),
)


@dataclass(frozen=True)
class Row:
    """A measured call. share: of it in a training step, less than 1 for an update of a group."""

    case: Case
    node: str
    function: str
    values: Mapping[str, float]
    instructions: int
    share: float


def main() -> None:
    """Measure, fit, check, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--keep", type=Path, help="folder of measured counts")
    parser.add_argument("--isa", nargs="+", default=["dsp", *CORES, RISCV, "helium"])
    parser.add_argument("--check-m7", action="store_true")
    parser.add_argument("--networks", nargs="+", help="only those whose name begins so")
    parser.add_argument("--write", action="store_true", help="into firmware/costs/")
    parser.add_argument("--add", action="store_true", help="write new functions, leave the others")
    options = parser.parse_args()
    chosen = tuple(options.networks or ("",))
    cases = [case for case in CASES if case.network.startswith(chosen)]
    for isa in options.isa:
        rows = list(measured(cases, isa, options))
        costs = fit_all(rows, isa)
        print_functions(rows, costs, isa)
        print_steps(rows, costs, isa)
        if options.add:
            costs = {**costs, **instructions.load_costs(isa)}
        if options.write or options.add:
            write(costs, isa)
        if isa == "dsp" and options.check_m7:
            print_m7(list(measured(cases, "m7", options)), costs)


# ------------------------------------------------------------------------------------- measurement


def measured(cases: Iterable[Case], board: str, options: argparse.Namespace) -> Iterator[Row]:
    """All calls of all cases on a board."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        target = None if board == RISCV else target_of(board, Path(scratch))
        for case in cases:
            try:
                step = step_of(case, Path(options.shared))
                yield from rows_of(case, step, counts_of(case, step, target, folder / board))
            except McutrainError as error:
                print(f"{case.name} on {board}: {error}", file=sys.stderr)


def target_of(board: str, scratch: Path) -> Target:
    """Return the board; M0+ and M3 code runs on the Cortex-M4 with the same counts."""
    if board not in CORES:
        return load_target(BOARDS_OF[board])
    folder = scratch / board
    folder.mkdir()
    text = (BOARDS / CARRIER / "board.toml").read_text(encoding="utf-8")
    text = text.replace('isa = "dsp"', f'isa = "{board}"').replace(f'"{CARRIER}"', f'"{board}"', 1)
    text = text.replace("-mcpu=cortex-m4", f"-mcpu={CORES[board]}")
    stack = max(row_of(board).stack_bytes, row_of("dsp").stack_bytes)
    text = re.sub("^stack_bytes = .*", f"stack_bytes = {stack}", text, flags=re.MULTILINE)
    (folder / "board.toml").write_text(text, encoding="utf-8")
    return load_target(folder)


def step_of(case: Case, shared: Path) -> TrainingStep:
    """The planned step."""
    scheme = replace(
        parse_scheme(case.scheme),
        residual_bits=case.residual_bits,
        bias_bits=case.bias_bits,
        update_rule=case.update_rule,
    )
    graph, targets = network(case.network, shared), None
    if case.has_targets:
        y = graph.tensors[graph.outputs[0]].type
        targets = Targets(y.scale, y.zero_point)
    options = StepOptions(
        classes=case.classes,
        gradient_dtype=case.gradient_dtype,
        accumulate=case.accumulate,
        loss=case.loss,
        class_weights=case.class_weights,
        distill=case.distill,
        losses="boxes=huber" if graph.row else "",
        targets=targets,
    )
    return prepare(graph, scheme, options, stream="off")  # every node is one call


def network(name: str, shared: Path) -> Graph:
    """A file, the demo's network, or one made of what no file has."""
    if name == "fashion":
        return demo.network()
    kind, _, seed = name.partition("-")
    if kind in MADE:
        sys.path.insert(0, str(REPOSITORY))
        networks = importlib.import_module("tests.cost.networks")
        graph: Graph = getattr(networks, kind)(int(seed))
        return graph
    return load(shared / "models" / f"{name}.tflite")


def counts_of(
    case: Case, step: TrainingStep, target: Target | None, folder: Path
) -> Mapping[str, int]:
    """Measured, or read from where it was kept. target: None for RISC-V."""
    file = folder / f"{case.name}.json"
    if not file.is_file():
        counts = count_on(step, target)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dict(counts)), encoding="utf-8")
        print(f"{folder.name} {case.name}: {sum(counts.values()):,}", file=sys.stderr)
    kept: Mapping[str, int] = json.loads(file.read_text(encoding="utf-8"))
    return kept


def count_on(step: TrainingStep, target: Target | None) -> Mapping[str, int]:
    """Count by the emulator that has the core."""
    if target is None:
        return count_on_riscv(step)
    if not target.emulation.unicorn:
        return count_nodes(step, target)
    return count_instructions(step, target)


def rows_of(case: Case, step: TrainingStep, counts: Mapping[str, int]) -> Iterator[Row]:
    """Calls with their quantities; updates of a group count whole."""
    training = step.plan.training
    applied = {node.name for node in training.apply}
    for node, types, results in instructions.calls(training):
        if not node.op.is_view:
            function, values = instructions.quantities(node.op, types, results)
            times = training.accumulate if node.name in applied else 1
            count = times * counts[node.name]
            yield Row(case, node.name, function, values, count, 1 / times)


# --------------------------------------------------------------------------------------------- fit


def fit_all(rows: Iterable[Row], isa: str) -> dict[str, dict[str, float]]:
    """Coefficients of every function, and of the unknown one."""
    by_function = defaultdict(list)
    for row in rows:
        by_function[row.function].append(row)
    costs = {
        function: (fit_dense if function in SPARSE else fit)(found, features_of(function, isa))
        for function, found in sorted(by_function.items())
    }
    every = [row for found in by_function.values() for row in found]
    other = fit(every, OTHER)
    ratios = [row.instructions / instructions.total(other, row.values) for row in every]
    factor = float(np.quantile(ratios, CONSERVATIVE))
    costs[instructions.OTHER] = {name: _short(factor * value) for name, value in other.items()}
    return costs


def fit(rows: Iterable[Row], features: tuple[str, ...]) -> dict[str, float]:
    """Least squares of the relative error, without negative coefficients.

    Calls of the same features count once, with their mean: a network's schemes repeat them.
    """
    groups = defaultdict(list)
    for row in rows:
        key = tuple(instructions.feature(name, row.values) for name in features)
        groups[key].append(row.instructions)
    target = np.array([np.mean(counts) for counts in groups.values()])
    matrix = np.array(list(groups)) / target[:, None]
    size = np.maximum(matrix.max(axis=0), np.finfo(float).tiny)
    found, _ = nnls(matrix / size, np.ones(len(target)))
    values = zip(features, found / size, strict=True)
    return {name: _short(value) for name, value in values if value > 0}


def fit_dense(rows: Iterable[Row], features: tuple[str, ...]) -> dict[str, float]:
    """Fit calls that skip little. What others skip cannot be known beforehand."""
    kept = list(rows)
    costs = fit(kept, features)
    for _ in range(ROUNDS):
        kept = [r for r in kept if r.instructions > DENSE * instructions.total(costs, r.values)]
        costs = fit(kept, features)
    return costs


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def predicted(row: Row, costs: Mapping[str, Mapping[str, float]]) -> float:
    """By the model."""
    return instructions.total(costs.get(row.function, costs[instructions.OTHER]), row.values)


# ------------------------------------------------------------------------------------------ output


def print_functions(rows: list[Row], costs: Mapping[str, Mapping[str, float]], isa: str) -> None:
    """How well each function's calls are explained."""
    print(f"\n{isa}: calls by function, fitted to all networks")
    print(f"{'function':42}{'calls':>6}{'terms':>6}{'median %':>9}{'worst %':>9}  worst call")
    for function in sorted({row.function for row in rows}):
        found = [row for row in rows if row.function == function]
        errors = np.array([predicted(row, costs) / row.instructions - 1 for row in found])
        worst = int(np.argmax(np.abs(errors)))
        print(
            f"{function:42}{len(found):6}{len(costs[function]):6}"
            f"{100 * np.median(np.abs(errors)):9.1f}{100 * errors[worst]:9.1f}"
            f"  {found[worst].case.name}: {found[worst].node[:50]}"
        )
    errors = np.array([abs(predicted(row, costs) / row.instructions - 1) for row in rows])
    print(f"all calls: median {100 * np.median(errors):.1f} %, 90 % of them below "
          f"{100 * np.quantile(errors, 0.9):.1f} %")  # fmt: skip


def print_steps(rows: list[Row], costs: Mapping[str, Mapping[str, float]], isa: str) -> None:
    """Whole training steps: by the fit to all, and by the fit to all other networks."""
    print(f"\n{isa}: training steps, millions of instructions")
    print(f"{'step':48}{'measured':>10}{'estimate':>10}{'error %':>9}{'left out %':>12}")
    for name in sorted({row.case.network for row in rows}):
        without = fit_all([row for row in rows if row.case.network != name], isa)
        cases = dict.fromkeys(row.case for row in rows if row.case.network == name)
        for case in cases:
            measured_total, by_all, by_others = step_totals(rows, case, costs, without)
            print(
                f"{case.name:48}{measured_total / 1e6:10.2f}{by_all / 1e6:10.2f}"
                f"{100 * (by_all / measured_total - 1):9.1f}"
                f"{100 * (by_others / measured_total - 1):12.1f}"
            )


def step_totals(
    rows: Iterable[Row], case: Case, *costs: Mapping[str, Mapping[str, float]]
) -> tuple[float, ...]:
    """Measured, and by each set of coefficients."""
    own = [row for row in rows if row.case == case]
    return (
        sum(row.share * row.instructions for row in own),
        *(sum(row.share * predicted(row, each) for row in own) for each in costs),
    )


def print_m7(rows: list[Row], costs: Mapping[str, Mapping[str, float]]) -> None:
    """Print the same coefficients beside what code compiled for the M7 executes."""
    print("\ndsp on a Cortex-M7: training steps, millions of instructions")
    for case in dict.fromkeys(row.case for row in rows):
        measured_total, estimate = step_totals(rows, case, costs)
        error = 100 * (estimate / measured_total - 1)
        print(f"{case.name:48}{measured_total / 1e6:10.2f}{estimate / 1e6:10.2f}{error:9.1f}")


def write(costs: Mapping[str, Mapping[str, float]], isa: str) -> None:
    """firmware/costs/<isa>.toml."""
    lines = [
        f"# Instructions of each kernel function, {isa} bodies, for mcutrain/cost/instructions.py:",
        "# feature = coefficient. Written by benchmarks/instruction_model.py, not by hand.",
    ]
    for function, terms in sorted(costs.items()):
        lines += ["", f"[{function}]", *(f'"{name}" = {value}' for name, value in terms.items())]
    file = FIRMWARE / "costs" / f"{isa}.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\nwrote {file.name}")


if __name__ == "__main__":
    main()
