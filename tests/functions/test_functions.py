"""mcutrain's functions: what is there, what they take, that they do what the commands do."""

import inspect
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest

import mcutrain
from mcutrain import demo
from mcutrain.errors import AnalysisError, ArgumentError, McutrainError, NoiseError, OptionError
from mcutrain.functions import comparing, learning, models
from mcutrain.report.learning import Compared
from mcutrain.runs import finishing
from mcutrain.runs.sample_reading import load_data
from mcutrain.shown import Shown
from mcutrain.simulation import FoundRate
from tests.cli.conftest import Run, images, model, run
from tests.quant.networks import OnnxNetwork
from tests.simulation.networks import Network, samples

__all__ = ["images", "model", "run"]

FUNCTIONS = (
    *("analyze", "augment", "auto_scheme", "build", "compare", "diff", "export", "flash"),
    *("describe_data", "generate", "imprint", "info", "latents", "load", "make_proxies", "plan"),
    *("parse_scheme", "ports", "prepare", "profile", "pull", "quantize", "select"),
    *("select_by_training", "select_for_budgets", "selftest", "simulate", "simulate_episodes"),
    *("snap", "train", "train_board", "trainer", "verify", "virtual_board", "whiten"),
)
RATE = 0.03


def test_dir_shows_what_there_is_and_nothing_else() -> None:
    assert set(dir(mcutrain)) == {*mcutrain.__all__, "__version__"}
    assert mcutrain.__all__ == sorted(mcutrain.__all__)
    for name in mcutrain.__all__:
        assert not isinstance(getattr(mcutrain, name), ModuleType), name
    assert set(FUNCTIONS) <= set(mcutrain.__all__)
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        mcutrain.quantise  # noqa: B018


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_types_and_a_docstring_with_errors_and_an_example(name: str) -> None:
    function = getattr(mcutrain, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        where = (signature.parameters, parameter.name)
        assert not parameter.name.startswith("_"), where
    text = inspect.getdoc(function) or ""
    assert "Raises" in text
    assert f">>> {name}(" in text


def test_export_and_simulate_stay_functions_after_their_packages_are_imported() -> None:
    import mcutrain.simulation.run
    import mcutrain.trained.compare
    from mcutrain.simulation import Run as RunOfPackage
    from mcutrain.trained import compare_models

    assert inspect.isfunction(mcutrain.export)
    assert inspect.isfunction(mcutrain.simulate)
    assert inspect.isfunction(compare_models)
    assert inspect.isclass(RunOfPackage)


def test_import_loads_nothing_large() -> None:
    code = (
        "import sys, mcutrain; dir(mcutrain); print(','.join(m.split('.')[0] for m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "onnx", "jinja2", "typer", "rich"} & set(out.stdout.split(","))


# ----------------------------------------------------------------------------- the same as commands


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(demo.MODEL).parent / "fashion.npz") as file:
        return file["x_train"][:60], file["y_train"][:60]


@pytest.mark.slow
def test_arrays_lists_and_files_of_the_same_samples_learn_the_same(
    model: Path, arrays: tuple[Any, Any], tmp_path: Path, run: Run
) -> None:
    x, y = arrays
    test = (x[40:], y[40:])
    file = tmp_path / "data.npz"
    np.savez(file, x_train=x[:40], y_train=y[:40], x_test=test[0], y_test=test[1])
    kinds: list[dict[str, Any]] = [
        {"data": file},
        {"data": str(file)},
        {"data": (x[:40], y[:40]), "validation": test},
        {"data": ((x[:40], y[:40]), test)},
        {"data": {"x_train": x[:40], "y_train": y[:40], "x_test": test[0], "y_test": test[1]}},
        {"data": (x[:40], y[:40].tolist()), "validation": test},
    ]
    keep = {"scheme": "last:2", "classes": "keep", "epochs": 1, "learning_rate": RATE}
    found = [mcutrain.simulate(model, **kind, **keep) for kind in kinds]
    assert len({result.saved for result in found}) == 1
    flags = ("--scheme", "last:2", "--classes", "keep", "--epochs", 1, "--lr", RATE, "--json")
    printed = run("simulate", model, "--data", file, *flags).json
    assert found[0].to_dict()["state_sha256"] == printed["state_sha256"]
    assert found[0].accuracy == printed["accuracy"]


@pytest.mark.parametrize("by", ["gradient", "training"])
def test_a_classifier_alone_is_not_analysed(by: Literal["gradient", "training"]) -> None:
    net = Network((4, 4, 3), seed=1)
    logits = net.conv(net.mean(net.x), 4, rounds_once=True)
    graph = net.graph(net.reshape(logits, (1, 4)))
    with pytest.raises(AnalysisError, match="no layer before its classifier, so there is nothing"):
        mcutrain.analyze(graph, samples(graph, 40, 4), by, learning_rate=RATE)


def test_of_a_folder_only_the_samples_that_are_drawn_are_read(model: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")
    for label in ("bag", "boot"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(5):
            image.new("L", (28, 28), number).save(tmp_path / "images" / label / f"{number}.png")
    read: list[tuple[int, int]] = []
    limits: dict[str, Any] = {"samples": 4, "test_samples": 2, "seed": 3}
    graph = mcutrain.load(model)
    split = load_data(
        graph, tmp_path / "images", progress=lambda done, of: read.append((done, of)), **limits
    )
    assert read[-1] == (6, 6)
    whole = load_data(graph, tmp_path / "images", seed=3)
    drawn = load_data(graph, whole, **limits)
    for part, expected in zip((split.train, split.test), (drawn.train, drawn.test), strict=True):
        assert part.x.tolist() == expected.x.tolist()


def test_windows_of_a_table_may_overlap_as_with_the_command(model: Path, tmp_path: Path) -> None:
    rows = [
        ",".join([*([str(i / 100)] * 28), label]) for label in ("up", "down") for i in range(100)
    ]
    table = tmp_path / "moves.csv"
    table.write_text("\n".join([",".join([*(f"c{i}" for i in range(28)), "label"]), *rows]))
    few: dict[str, Any] = {"epochs": 1, "learning_rate": RATE, "samples": 6, "test_samples": 1}
    few["scheme"] = "head"
    assert mcutrain.simulate(model, table, stride=1, **few).steps == 6
    with pytest.raises(McutrainError, match="6 samples were asked for but the set has"):
        mcutrain.simulate(model, table, **few)


def test_plan_generate_verify_and_diff_say_what_the_commands_print(
    model: Path, run: Run, tmp_path: Path
) -> None:
    planned = mcutrain.plan(model, "last:3", board="nucleo-f446re")
    printed = run("plan", model, "--scheme", "last:3", "--board", "nucleo-f446re", "--json").json
    assert json.loads(json.dumps({"file": str(model), **planned.to_dict()})) == printed
    assert planned.sram_bytes == printed["board"]["sram_bytes"]
    made = mcutrain.generate(model, tmp_path / "a", "last:3")
    printed = run("generate", model, "--scheme", "last:3", "-o", "b", "--json").json
    assert {"folder": "b", "files": made.files} == {k: printed[k] for k in ("folder", "files")}
    for name in made.files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    changes = mcutrain.diff(model, mcutrain.load(model))
    assert changes.are_equal
    printed = run("diff", model, model, "--json").json
    assert {k: printed[k] for k in changes.to_dict()} == changes.to_dict()


@pytest.mark.slow
def test_the_class_names_of_a_model_file_are_those_of_its_own_head(
    model: Path, run: Run, tmp_path: Path
) -> None:
    named, names = tmp_path / "named.tflite", list("abcdefghij")
    shutil.copy(model, named)
    with zipfile.ZipFile(named, "a") as archive:
        archive.writestr("labels.txt", "\n".join(names))

    def of_function(**more: Any) -> list[str]:
        mcutrain.generate(named, tmp_path / "f", **more)
        return class_names(tmp_path / "f")

    def of_command(*more: object) -> list[str]:
        assert run("generate", named, "-o", tmp_path / "c", *more).code == 0
        return class_names(tmp_path / "c")

    assert of_function() == of_command() == names
    assert of_function(added=["k"]) == of_command("--add-class", "k") == [*names, "k"]
    assert of_function(classes=10) == of_command("--classes", 10) == []
    assert of_function(class_names=()) == []
    assert of_function(classes=10, class_names=names[::-1]) == names[::-1]


def class_names(folder: Path) -> list[str]:
    """In a generated project."""
    return list(json.loads((folder / "manifest.json").read_text()).get("class_names", []))


class EnoughError(Exception):
    """What comes after is not of interest."""


def test_values_that_the_input_clips_are_warned_of_at_the_line_that_calls(
    model: Path, arrays: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = arrays[0].astype(np.float32) / 255, arrays[1]
    x[:, 0, 0] = 1.1
    x[:, 0, 1] = -0.1

    def enough(*_: object) -> None:
        raise EnoughError

    def only_inputs(*given: Any) -> Any:
        return given[-1](mcutrain.load(model))

    monkeypatch.setattr(learning, "by_gradient", enough)
    monkeypatch.setattr(comparing, "train_all", enough)
    monkeypatch.setattr(finishing, "finish", enough)
    monkeypatch.setattr(models, "compare_with_runtime", only_inputs)
    calls: list[Callable[[], object]] = [
        lambda: mcutrain.simulate(model, (x, y), "head", learning_rate=RATE),
        lambda: mcutrain.analyze(model, (x, y), "gradient", learning_rate=RATE),
        lambda: mcutrain.compare(model, (x, y), learning_rate=RATE),
        lambda: mcutrain.verify(model, data=(x, y)),
    ]
    for call in calls:
        with (
            pytest.warns(UserWarning, match="values are clipped") as warned,
            suppress(EnoughError),
        ):
            call()
        assert [w.filename for w in warned] == [__file__] * len(warned)
        assert len(warned) == 2  # of the training and of the test samples


def test_what_was_trained_is_exported_from_the_result(
    model: Path, arrays: tuple[Any, Any], tmp_path: Path
) -> None:
    result = mcutrain.simulate(model, arrays, "last:2", epochs=1, learning_rate=RATE)
    from_result = mcutrain.export(model, tmp_path / "a.tflite", result)
    step = mcutrain.prepare(model, "last:2", classes=None)
    from_bytes = mcutrain.export(model, tmp_path / "b.tflite", result.saved, step=step)
    assert (tmp_path / "a.tflite").read_bytes() == (tmp_path / "b.tflite").read_bytes()
    assert from_result.changed == from_bytes.changed != ()
    with pytest.raises(McutrainError, match="does not say how it was trained: give step"):
        mcutrain.export(model, tmp_path / "c.tflite", result.saved)
    assert not (tmp_path / "c.tflite").exists()


@pytest.mark.slow
def test_analysis_selection_and_comparison_from_arrays(
    model: Path, arrays: tuple[Any, Any], tmp_path: Path
) -> None:
    few = {"samples": 20, "test_samples": 20, "gradient_samples": 4, "head_epochs": 1}
    found = mcutrain.analyze(model, arrays, by="gradient", learning_rate=RATE, **few)
    file = found.write(tmp_path / "analysis.json")
    limits = {"sram": 40_000}
    chosen = mcutrain.select(model, found, **limits)
    assert chosen.scheme == mcutrain.select(model, str(file), **limits).scheme
    assert chosen.measured.sram_bytes <= 40_000
    compared = mcutrain.compare(
        model, arrays, [chosen.scheme], seeds=1, epochs=1, learning_rate=RATE, samples=10, jobs=1
    )
    names = ["head only", "biases only", "last 6", "full", chosen.scheme.name]
    assert [row["name"] for row in compared.records()] == names
    assert compared.rows[-1].arena_bytes == chosen.measured.arena_bytes
    shown(found, chosen, compared)


@pytest.mark.slow
def test_quantize_takes_arrays_and_says_the_layers(tmp_path: Path) -> None:
    float_model = Path(demo.MODEL).parent / "fashion.onnx"
    with np.load(Path(demo.MODEL).parent / "fashion.npz") as file:
        x = file["x_train"][:24]
    path = tmp_path / "q.tflite"
    quick = {"ranges": "minmax", "equalize": "off", "bias_correction": "off", "samples": 16}
    found = mcutrain.quantize(float_model, x, path, pixels=(0, 1), layer_errors=True, **quick)
    assert mcutrain.diff(found.graph, path).are_equal
    assert found.snr_db > 10
    assert len(found.records()) == len(found.layers) > 10
    written = {node.name for node in mcutrain.load(path).nodes}
    assert {layer.name for layer in found.layers} <= written | {"input"}
    shown(found)


def test_quantize_writes_into_a_folder_and_tells_its_parts(tmp_path: Path) -> None:
    float_model = Path(demo.MODEL).parent / "fashion.onnx"
    told: list[str] = []
    quick: dict[str, Any] = {"ranges": "minmax", "equalize": "off", "bias_correction": "off"}
    with np.load(Path(demo.MODEL).parent / "fashion.npz") as file:
        pixels = file["x_train"][:16]
    found = mcutrain.quantize(
        float_model,
        pixels,
        tmp_path,
        pixels=(0, 1),
        class_names=[f"class {i}" for i in range(10)],
        progress=lambda what, done, of: told.append(what),
        **quick,
    )
    assert found.path == tmp_path / "fashion.int8.tflite"
    assert mcutrain.load(found.path).class_names[9] == "class 9"
    assert (found.warning, found.note, found.turned) == ("", "", "")
    assert told[-1] == "writing"


def test_what_quantize_cannot_do_is_said_before_it_is_done(tmp_path: Path) -> None:
    float_model = Path(demo.MODEL).parent / "fashion.onnx"
    with pytest.raises(OptionError, match="pixels says the same as mean"):
        mcutrain.quantize(float_model, X, pixels=(0, 1), mean=[0.5], std=[0.5])
    with pytest.raises(McutrainError, match="cannot write"):
        mcutrain.quantize(float_model, X, tmp_path / "nowhere" / "a.tflite", pixels=(0, 1))


def test_noise_is_refused_with_the_errors_of_the_layers() -> None:
    float_model = Path(demo.MODEL).parent / "fashion.onnx"
    x = np.random.default_rng(0).uniform(0, 1, (4, 28, 28, 1)).astype(np.float32)
    quick: dict[str, Any] = {"ranges": "minmax", "equalize": "off", "bias_correction": "off"}
    with (
        pytest.warns(UserWarning, match="they take 1 of its 256 values"),
        pytest.raises(NoiseError, match="outputs are noise") as caught,
    ):
        mcutrain.quantize(float_model, x, input_scale=1000.0, layer_errors=True, **quick)
    assert caught.value.layers[0].name == "input"


def test_an_analysis_warns_of_a_rate_that_changes_next_to_nothing(
    model: Path, arrays: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "found_rate", lambda *_: FoundRate(1e-7, False))
    few: dict[str, Any] = {"by": "gradient", "head_epochs": 1, "gradient_samples": 2, "classes": 10}
    doubt = "the learning rate 1e-07 was found, but trials with"
    nothing = "with the head alone nothing was learnt at a learning rate of 1e-07"
    with pytest.warns(UserWarning, match=doubt), pytest.warns(UserWarning, match=nothing):
        found = mcutrain.analyze(model, arrays, **few)
    assert found.settings["learning_rate"] == 1e-7


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (None, "best is full with 90.0 %"),
        (300, "best that fits is full with 90.0 %"),
        (200, "best that fits is head with 80.0 %"),
        (99, "none fits; best is full with 90.0 %"),
    ],
)
def test_a_comparison_says_whether_its_best_scheme_fits(limit: int | None, says: str) -> None:
    head = Compared("head", "head", (0.8,), 100, 50, 50, 10, sram_limit=limit)
    full = replace(head, name="full", accuracies=(0.9,), sram_bytes=300)
    found = mcutrain.Comparison("m", (head, full), ())
    assert found.summary().startswith(f"m, 2 schemes; {says} in ")


def shown(*results: Shown) -> None:
    """Each is frozen, short as text, and drawn in a notebook without anything from elsewhere."""
    for result in results:
        assert is_dataclass(result)
        with pytest.raises(FrozenInstanceError):
            result.summary = None  # type: ignore[method-assign]
        assert repr(result).startswith(f"<{type(result).__name__}: ")
        assert len(repr(result)) < 250
        assert "\n" not in repr(result)
        page = result._repr_html_()
        assert page.startswith('<div class="mct">')
        assert "<script" not in page
        assert len(page) < 200_000
        records = result.records()
        assert records
        assert all(row.keys() == records[0].keys() for row in records)
        json.dumps(result.to_dict())


def test_results_are_short_and_drawn(model: Path, arrays: tuple[Any, Any], tmp_path: Path) -> None:
    result = mcutrain.simulate(model, arrays, "last:2", epochs=2, learning_rate=RATE)
    trained = tmp_path / "a.tflite"
    step = mcutrain.prepare(model, "last:2")
    export = mcutrain.export(model, trained, result)
    shown(
        mcutrain.load(model),
        step,
        mcutrain.plan(step),
        mcutrain.generate(step, tmp_path / "p"),
        result,
        export,
        mcutrain.diff(model, trained),
    )
    assert "accuracy, %" in result._repr_html_()  # drawn
    assert "bytes of the arena" in mcutrain.plan(step)._repr_html_()
    assert mcutrain.plan(step).records()[0].keys() >= {"buffer", "bytes", "offset"}


def test_to_pandas_is_a_sentence_without_pandas_and_a_table_with_it(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = mcutrain.load(model)
    stand_in = ModuleType("pandas")
    stand_in.DataFrame = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", stand_in)
    assert graph.to_pandas() == graph.records()
    monkeypatch.setitem(sys.modules, "pandas", None)  # type: ignore[arg-type]
    with pytest.raises(McutrainError, match="pip install pandas"):
        graph.to_pandas()


# --------------------------------------------------------------------------------------- bad input

X, Y = np.zeros((6, 28, 28), np.uint8), np.arange(6) % 2
MODEL = demo.MODEL
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: mcutrain.load(7), "path is 7, but it must be a text or a path"),  # type: ignore[arg-type]
    (lambda: mcutrain.load("nowhere.tflite"), "nowhere.tflite"),
    (lambda: mcutrain.load("."), "."),
    (lambda: mcutrain.prepare(MODEL, 3), "scheme is 3, but it must be a"),  # type: ignore[arg-type]
    (lambda: mcutrain.prepare(MODEL, "last:x"), "'last:x' is not an update scheme"),
    (lambda: mcutrain.prepare(MODEL, classes=0), "classes is 0: it must be at least 1"),
    (lambda: mcutrain.prepare(MODEL, gradient_dtype="int4"), "gradient_dtype is 'int4'"),
    (lambda: mcutrain.plan(MODEL, sram=1000), "bytes of SRAM"),
    (lambda: mcutrain.plan(MODEL, sram="64K"), "sram is '64K', but it must be an integer or None"),  # type: ignore[arg-type]
    (lambda: mcutrain.plan(MODEL, board="toaster"), "there is no board 'toaster'"),
    (lambda: mcutrain.plan(MODEL, board="Raspberry Pi Pico"), "did you mean 'rpi-pico'?"),
    (lambda: mcutrain.plan(MODEL, board="F446RE"), "did you mean 'nucleo-f446re'?"),
    (lambda: mcutrain.plan(MODEL, board="nucleo-f466re"), "did you mean 'nucleo-f446re'?"),
    (lambda: mcutrain.plan(MODEL, loss="hinge"), "loss is 'hinge', but it must be 'cross-entropy'"),  # type: ignore[arg-type]
    (lambda: mcutrain.generate(MODEL, "/proc/nowhere"), "/proc/.*nowhere.*: No such file"),
    (lambda: mcutrain.simulate(MODEL, "nowhere.npz"), "nowhere.npz"),
    (lambda: mcutrain.simulate(MODEL, (X, Y[:3])), "x has 6 samples but y has 3 labels"),
    (lambda: mcutrain.simulate(MODEL, (X, Y, Y)), "data is a tuple of 3: give"),
    (lambda: mcutrain.simulate(MODEL, 5), "x is int, no array of numbers"),
    (lambda: mcutrain.simulate(MODEL, None), "x is NoneType, no array of numbers"),
    (lambda: mcutrain.simulate(MODEL, ([[1, 2], [3]], Y)), "x is no array"),
    (lambda: mcutrain.simulate(MODEL, {"X": X}), "data has the key 'X': known are x, y"),
    (lambda: mcutrain.simulate(MODEL, (X * np.nan, Y)), "NaN"),
    (lambda: mcutrain.simulate(MODEL, X), "no labels"),
    (lambda: mcutrain.simulate(MODEL, "d.npz", validation=(X, Y)), "validation goes with arrays"),
    (lambda: mcutrain.simulate(MODEL, ((X, Y), (X, Y)), validation=(X, Y)), "leave out validation"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), epochs=-1), "epochs is -1: it must be at least 0"),
    (
        lambda: mcutrain.simulate(MODEL, (X, Y), epochs=1.5),
        "epochs is 1.5, but it must be an integer",
    ),  # type: ignore[arg-type]
    (lambda: mcutrain.simulate(MODEL, (X, Y), flip=1), "flip is 1, but it must be True or False"),  # type: ignore[arg-type]
    (lambda: mcutrain.simulate(MODEL, (X, Y), learning_rate=float("nan")), "learning_rate is nan"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), learning_rate=0.0), "it must be above 0"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), learning_rate=-1.0), "it must be above 0"),
    (lambda: mcutrain.simulate(MODEL, "nowhere.npz", learning_rate=1e30), "learning rate"),
    (lambda: mcutrain.compare(MODEL, "nowhere.npz", learning_rate=1e30), "learning rate"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), test_share=2.0), "test_share is 2.0"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), mean=(0.5,)), "mean and std belong together"),
    (lambda: mcutrain.simulate(MODEL, (X, Y), mean=0.5), "mean is 0.5, but it must be a list"),  # type: ignore[arg-type]
    (lambda: mcutrain.simulate(MODEL, (X, Y), added=["a", 3]), "added\\[1\\] is 3"),  # type: ignore[list-item]
    (lambda: mcutrain.analyze(MODEL, (X, Y), "magic"), "by is 'magic', but it must be 'training'"),  # type: ignore[arg-type]
    (lambda: mcutrain.analyze(MODEL, (X, Y), samples=50), "too few"),
    (lambda: mcutrain.analyze(MODEL, (X, Y), module_rate=0.0), "module_rate is 0.0"),
    (lambda: mcutrain.analyze(MODEL, (X, Y), module_rate=0.1), "a rate of modules is given, but"),
    (lambda: mcutrain.select(MODEL, "nowhere.json", sram=1000), "nowhere.json"),
    (lambda: mcutrain.select(MODEL, "nowhere.json"), "is needed as a limit"),
    (lambda: mcutrain.select(MODEL, "nowhere.json", flash=5), "flash needs a board"),
    (lambda: mcutrain.compare(MODEL, (X, Y), board="rpi-pico", sram=5), "says the same"),
    (lambda: mcutrain.compare(mcutrain.load(MODEL), (X, Y)), "but it must be a text or a path"),  # type: ignore[arg-type]
    (lambda: mcutrain.quantize(MODEL, X), "an int8 model needs no quantization"),
    (lambda: mcutrain.quantize("nowhere.onnx", X), "nowhere.onnx"),
    (lambda: mcutrain.quantize(MODEL, X, "a.txt"), "must end with .tflite or .onnx"),
    (lambda: mcutrain.export(MODEL, "a.txt"), "must end with .tflite or .onnx"),
    (
        lambda: mcutrain.export(MODEL, "a.tflite", b"junk", step=mcutrain.prepare(MODEL)),
        "no trained state",
    ),
    (lambda: mcutrain.export(MODEL, "a.tflite", "nowhere.mcts"), "cannot read nowhere.mcts"),
    (lambda: mcutrain.verify("nowhere.tflite"), "nowhere.tflite"),
    (lambda: mcutrain.diff(MODEL, "nowhere.tflite"), "nowhere.tflite"),
    (lambda: mcutrain.train("step", (X, Y)), "step is 'step', but it must be a TrainingStep"),  # type: ignore[arg-type]
    (lambda: mcutrain.parse_scheme(5), "is 5, but it must be a text"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_a_mcutrain_error_and_prints_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call, says = BAD[number]
    with pytest.raises(McutrainError, match=says):
        call()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", [mcutrain.simulate, mcutrain.analyze, mcutrain.compare])
def test_a_cache_that_cannot_be_written_is_said_before_the_data_is_read(
    function: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", "/proc/nowhere")
    with pytest.raises(McutrainError, match="the cache folder /proc/nowhere cannot be written"):
        function(MODEL, "nowhere.npz")


def test_a_large_array_is_not_dumped_into_a_sentence() -> None:
    with pytest.raises(ArgumentError) as caught:
        mcutrain.load(np.zeros((3, 4)))  # type: ignore[arg-type]
    assert str(caught.value) == "path is an array of shape (3, 4), but it must be a text or a path"


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_sequences_of_a_data_set_are_verified_as_the_model_takes_them(
    suffix: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    net = OnnxNetwork([1, 4, 10], seed=1)
    a = net.op("Conv", "input", net.real(net.rng.normal(0, 1, (6, 2, 3))), group=2)
    a = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", a)))
    net.save(tmp_path / "float.onnx", net.gemm(a, 6, 3))
    x, y = net.rng.normal(0, 1, (30, 4, 10)).astype(np.float32), np.arange(30) % 3
    path = tmp_path / f"int8{suffix}"
    mcutrain.quantize(tmp_path / "float.onnx", x, path)
    verdict = mcutrain.verify(path, data=(x, y), samples=6, reference_samples=2)
    plain = [
        c.largest
        for c in verdict.comparisons
        if "optimized" not in c.of and "optimized" not in c.against
    ]
    assert plain
    assert max(plain) <= (suffix == ".onnx")
