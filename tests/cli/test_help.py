"""What helps a newcomer to the right words: groups, completion, "did you mean", export lines."""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.markdown import Markdown

from mcutrain.cli import commands, panels, short_help
from mcutrain.cli.commands import PANELS
from mcutrain.demo import MODEL
from mcutrain.errors import did_you_mean
from mcutrain.modules.spec import EXPANDS, LITE_OPTIONS, UPS
from mcutrain.sparse.module_names import KINDS
from tests.cli.conftest import Run


def test_every_command_stands_in_one_group_of_the_help_in_their_order(run: Run) -> None:
    text = run("--help").out
    names = [name for names in PANELS.values() for name in names]
    assert len(names) == len(set(names)) == len(commands.command().commands)
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    for panel, listed in PANELS.items():
        box = text[text.index(f"─ {panel} ─") :].partition("╰")[0]
        shown = [line.split()[1] for line in box.splitlines()[1:] if line[2:3] != " "]
        assert shown == list(listed)


def boxes(text: str) -> dict[str, list[str]]:
    """The flags of a help text, by the titles of the boxes that they stand in."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("╭─ "):
            flags = found.setdefault(line[3:].rstrip("─╮ "), [])
        elif match := re.match(r"│ (?:\*  |   |)(--[a-z-]+)", line):
            flags.append(match[1])
    return found


@pytest.mark.parametrize(
    ("command", "some"),
    [
        ("simulate", {"--lr": "Training", "--sram": panels.MEMORY, "--board": "Options"}),
        ("generate", {"--remember": panels.MEMORY, "--prefix": "Files", "--board": "Options"}),
        ("compare", {"--samples": "Reading the data", "--jobs": "On this computer"}),
        ("select", {"--finalists": "Choosing a scheme"}),
        ("train", {"--reconnect": "The board", "--state": "Files"}),
    ],
)
def test_many_flags_stand_in_boxes_by_what_they_are_about(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, some: dict[str, str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = boxes(run(command, "--help-all").out)
    every = [flag for flags in found.values() for flag in flags]
    assert len(every) == len(set(every)) > panels.MANY
    parameters = commands.command().commands[command].params
    flags = {max(p.opts, key=len) for p in parameters if p.param_type_name == "option"}
    assert set(every) == flags | {"--help", "--help-all"}
    assert max(map(len, found.values())) <= 15
    titles = list(found)
    assert titles[:2] == ["Arguments", "Options"]
    assert titles[2:] == [title for title in panels.flags_of_boxes() if title in found]
    assert {"--json", "--help", "--help-all"} <= set(found["Options"])
    assert {flag: title for title, flags in found.items() for flag in flags if flag in some} == some


@pytest.mark.parametrize("command", panels.COMMON)
def test_the_short_help_shows_the_common_flags_in_one_box(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = boxes(run(command, "--help").out)
    assert list(found) == ["Arguments", "Options"]
    shown = found["Options"]
    assert shown[-2:] == ["--help", "--help-all"]
    assert len(shown) <= panels.MANY
    everything = boxes(run(command, "--help-all").out)
    assert shown == [flag for flag in order(everything) if flag in shown]
    assert set(shown) == set(everything["Options"]) | set(panels.COMMON[command])
    assert not set(shown) & set(panels.flags_of_boxes()[panels.NOT_WORTH_IT])


def order(found: dict[str, list[str]]) -> list[str]:
    """All flags as --help shows them: both helps last."""
    flags = [flag for box in found.values() for flag in box]
    last = ("--help", "--help-all")
    return [*(flag for flag in flags if flag not in last), *last]


def test_the_short_help_says_how_many_flags_it_leaves_out(run: Run) -> None:
    few, many = (boxes(run("simulate", flag).out) for flag in ("--help", "--help-all"))
    left_out = len(order(many)) - len(order(few))
    assert f"Show all flags: {left_out} more." in run("simulate", "--help").out


def test_every_command_whose_flags_fill_boxes_has_a_short_help() -> None:
    every = commands.command().commands
    many = {
        name
        for name, command in every.items()
        if sum(p.param_type_name == "option" for p in command.params) > panels.MANY
    }
    assert many == set(panels.COMMON)


def test_where_nothing_is_left_out_both_helps_are_one(run: Run) -> None:
    assert run("flash", "--help-all").out == run("flash", "--help").out
    assert "--help-all" not in run("flash", "--help").out


def test_few_flags_stand_in_one_box(run: Run) -> None:
    assert list(boxes(run("augment", "--help").out)) == ["Arguments", "Options"]


@pytest.mark.parametrize("command", ["augment", "plan", "simulate", "generate"])
def test_the_help_names_every_kind_of_module_and_every_option(run: Run, command: str) -> None:
    text = run(command, "--help-all").out
    for word in (*KINDS, *(f",{option}=" for option in LITE_OPTIONS), *EXPANDS, *UPS):
        assert word in text


@pytest.mark.parametrize("flag", ["--swap drawn", "--swap=fisher --swap=drawn", "--resample drawn"])
def test_a_flags_former_name_works_and_is_said_once(run: Run, flag: str) -> None:
    words = ("plan", MODEL, "--scheme", "22:0.25", *flag.split(), "--json")
    now, found = (
        run("plan", MODEL, "--scheme", "22:0.25", "--resample", "drawn", "--json"),
        run(*words),
    )
    assert found.json == now.json != run("plan", MODEL, "--scheme", "22:0.25", "--json").json
    assert found.err.count("--swap is called --resample now") == ("--swap" in flag)


def test_a_former_name_is_only_read_where_the_flag_is(run: Run) -> None:
    assert "--swap" in run("build", "folder", "--swap").err
    assert "--resample" not in run("build", "folder", "--swap").err
    assert set(short_help.FORMER.values()) <= {
        f for fs in panels.flags_of_boxes().values() for f in fs
    }


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("mcutrain simu", "simulate"),
        ("mcutrain plan --sche", "--scheme"),
        ("mcutrain plan x.tflite --scheme mcunet-5fps-10", "mcunet-5fps-100kb"),
        ("mcutrain plan x.tflite --board nucleo", "nucleo-f446re"),
    ],
)
def test_a_shell_can_complete_what_is_typed(typed: str, offered: str) -> None:
    settings = {
        "_MCUTRAIN_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    program = "import sys; sys.argv[0] = 'mcutrain'; from mcutrain.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered in done.stdout.split()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("plan", MODEL, "--scheme", "haed"), "head"),
        (("plan", MODEL, "--scheme", "last6"), "last:6"),
        (("plan", MODEL, "--scheme", "mcunet-5fps-100k"), "mcunet-5fps-100kb"),
        (("plan", MODEL, "--scheme", "fashion_sparse"), "fashion-sparse"),
        (("plan", MODEL, "--scheme", "block4/expnd:0.5"), "block4/expand"),
        (("plan", MODEL, "--board", "Nucleo-F446R"), "nucleo-f446re"),
    ],
)
def test_a_misspelt_name_is_asked_back(run: Run, arguments: tuple[object, ...], meant: str) -> None:
    assert run(*arguments).sentence.endswith(f"; did you mean {meant!r}?")


def test_what_is_like_nothing_is_not_guessed_at(run: Run) -> None:
    assert "did you mean" not in run("plan", MODEL, "--scheme", "xyzzy").sentence
    assert did_you_mean("b", ["alpha"]) == ""


def test_a_misspelt_command_is_asked_back(run: Run) -> None:
    outcome = run("simulat")
    assert outcome.code == 2
    assert "Did you mean 'simulate'?" in outcome.err


@pytest.mark.parametrize("command", ["info", "quantize"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("net.pt", "torch.onnx.export(model.eval(), torch.zeros("),
        ("net.pth", "torch.onnx.export("),
        ("net.ckpt", "torch.onnx.export("),
        ("net.safetensors", "load them into it; in Python, torch.onnx.export("),
        ("net.pte", "go back to the PyTorch model; in Python, torch.onnx.export("),
        ("net.keras", "TFLiteConverter.from_keras_model(tf.keras.models.load_model('net.keras'))"),
        ("net.h5", "TFLiteConverter.from_keras_model(tf.keras.models.load_model('net.h5'))"),
        ("saved/saved_model.pb", "TFLiteConverter.from_saved_model('saved').convert()"),
        ("saved", "TFLiteConverter.from_saved_model('saved').convert()"),
    ],
)
def test_files_of_other_tools_get_the_line_that_exports_them(
    run: Run, tmp_path: Path, command: str, name: str, line: str
) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    for path in (saved / "saved_model.pb", tmp_path / name):
        if not path.exists():
            path.write_bytes(b"\x89HDF of something")
    flags = ("--calibration", "nowhere", "-o", "out.tflite") if command == "quantize" else ()
    sentence = run(command, name, *flags).sentence
    assert line in sentence
    assert sentence.endswith("then `mcutrain quantize` reads it")


def test_markdown_takes_nothing_out_of_a_help_text() -> None:
    """As it took <group> and two underscores out of a pattern that one was to copy."""
    for name, command in commands.command().commands.items():
        for parameter in command.params:
            text = getattr(parameter, "help", None) or ""
            file = StringIO()
            Console(file=file, width=10_000).print(Markdown(text))
            assert file.getvalue().split() == text.replace("`", "").split(), (name, parameter.name)
