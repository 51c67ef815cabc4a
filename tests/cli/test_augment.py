"""mcutrain augment: what it writes and says, and what it cannot do."""

import json
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.errors import ArgumentError, DataError, SchemeError
from mcutrain.formats import load
from mcutrain.ir.difference import difference
from mcutrain.sparse.modules import whole_modules
from tests.cli.conftest import Run
from tests.cli.small import write_block

FEW = ("--samples", 4)


@pytest.mark.slow
def test_a_model_gets_modules_and_trains_them(run: Run, model: Path, images: Path) -> None:
    facts = run(
        "augment", model, "--modules", "adapter:2,at=last:3,gain", "--data", images, *FEW,
        "-o", "with.tflite", "--json",
    ).json  # fmt: skip
    kinds = [m["kind"] for m in facts["modules"]]
    assert (kinds.count("adapter"), kinds.count("gain")) == (3, 25)
    assert (facts["samples"], facts["file"]) == (4, "with.tflite")
    before, after = (run("info", p, "--json").json for p in (model, "with.tflite"))
    assert (
        after["macs"] - before["macs"] == facts["macs"] == sum(m["macs"] for m in facts["modules"])
    )
    assert after["weights"] - before["weights"] == facts["weights"]
    assert run("verify", "with.tflite", "--samples", 4, "--reference-samples", 1).code == 0
    few = ("--samples", 20, "--test-samples", 10, "--epochs", 1, "--lr", 0.1)
    trained = run(
        "simulate", "with.tflite", "--data", images, *few, "--scheme", "modules,bias:2",
        "--checkpoint", "run.npz", "--json",
    ).json  # fmt: skip
    assert trained["steps"] == 20
    exported = run("export", "with.tflite", "--state", "run.npz", "-o", "trained.tflite", "--json")
    changed = exported.json["changed"]
    assert any("/module.adapter.up/" in name for name in changed)
    assert {n for n in changed if "/module." not in n} <= {
        "head/weight", "head/bias", "block8/project/bias", "block8/depthwise/bias",
    }  # fmt: skip


def test_low_rank_updates_count_what_they_add(run: Run, model: Path, images: Path) -> None:
    flags = ("--data", images, *FEW, "-o", "with.onnx", "--json")
    before = run("info", model, "--json").json
    for kind, trained in (("lora", 3 * (192 + 64)), ("lora-fa", 3 * 64)):
        facts = run("augment", model, "--modules", f"{kind}:3,at=24", *flags).json
        after = run("info", "with.onnx", "--json").json
        assert after["macs"] - before["macs"] == facts["macs"] == 16 * 3 * (192 + 64)
        assert after["weights"] - before["weights"] == facts["weights"] == 3 * (192 + 64)
        assert facts["trained"] == trained


def test_the_same_from_python_is_the_same_file(run: Run, model: Path, images: Path) -> None:
    run("augment", model, "--modules", "lora-fa:2", "--data", images, *FEW, "-o", "a.tflite")
    found = mcutrain.augment(model, "lora-fa:2", images, "b.tflite", samples=4)
    assert Path("a.tflite").read_bytes() == Path("b.tflite").read_bytes()
    assert difference(found.graph, load("b.tflite")) == ""
    assert "16 modules" in repr(found)
    assert len(found.records()) == 16


def test_only_gains_need_no_samples(run: Run, model: Path) -> None:
    out = run("augment", model, "--modules", "gain,at=3+block8/project", "-o", "g.tflite").out
    assert "2 modules: 80 weights" in out
    assert "--scheme modules" in out
    sentence = run("augment", model, "--modules", "gain,adapter:2", "-o", "h.tflite").sentence
    assert sentence == (
        "ranges and directions of adapter:2 come from training samples: give --data"
    )
    assert not Path("h.tflite").exists()


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        ("adaptor:8", "there is no module 'adaptor'; did you mean 'adapter'?"),
        ("adapter", "adapter needs a number from 1 to 4096, as in adapter:4"),
        ("lora:0", "lora needs a number"),
        ("gain:2", "gain takes no number"),
        ("at=last:2,gain", "the option 'at=last:2' comes before any kind"),
        ("gain,at=2,at=3", "the option 'at=3' is there twice"),
        ("gain,gain", "gain is there twice"),
        ("lora:2,lora-fa:2", "lora and lora-fa change the same layers: take one of them"),
        ("gain,place=2", "gain has no option 'place'"),
        ("gain,up=nearest", "gain has no option 'up'"),
        ("lite", "lite needs the size of its first convolution, 1, 3 or 5"),
        ("lite:2", "lite needs the size of its first convolution, 1, 3 or 5"),
        ("lite:3,separable=2", "separable is '2'; it is no or yes"),
        ("lite:3,groups=2,separable=yes", "a separable lite residual has no groups"),
        ("lite:3,expand=2", "expand is '2'; it is 1/4 or 1/2 or 1"),
        ("lite:3,groups=0", "groups is '0'; it is a number from 1"),
        ("lite:3,groups=3", "reads 16 channels, which are not 3 groups of several"),
        ("lite:3,groups=16", "reads 16 channels, which are not 16 groups of several"),
        ("lite:3,up=cubic", "up is 'cubic'; it is nearest or bilinear"),
        ("lite:3,at=block1/project", "'block1/project' is no place for lite in"),
        ("lora:2,start=zero", "start is 'zero'; it is principal or random"),
        ("gain,at=last", "at=last names no places"),
        ("bias", "biases are there already"),
        ("adapter:17", "'block1/project' has 16 channels there, fewer than 17: take at most 16"),
        ("adapter:8,at=last:9", "has 8 places for adapter, not 9"),
        ("adapter:8,at=block8/ad", "'block8/ad' is no place for adapter in"),
        ("gain,at=head/conv", "'head/conv' is no place for gain in"),
        ("lora:2,at=2", "'2' is no place for lora in"),
    ],
)
def test_wrong_modules_are_explained(
    run: Run, model: Path, images: Path, modules: str, says: str
) -> None:
    flags = ("--data", images, "-o", "with.tflite")
    assert says in run("augment", model, "--modules", modules, *flags).sentence
    assert not Path("with.tflite").exists()


def test_a_model_that_has_modules_gets_no_more(run: Run, model: Path) -> None:
    run("augment", model, "--modules", "gain", "-o", "g.tflite")
    sentence = run("augment", "g.tflite", "--modules", "gain", "-o", "h.tflite").sentence
    assert "has modules already, first 'stem/module.gain.factor': give the model" in sentence


def test_a_model_is_not_written_over_by_the_one_with_modules(
    run: Run, model: Path, images: Path
) -> None:
    Path("own.tflite").write_bytes(model.read_bytes())
    Path("link.tflite").symlink_to("own.tflite")
    pet = ("--data", images, "--pet", "gain", "--save-model", "link.tflite")
    for command in (
        ("augment", "own.tflite", "--modules", "gain", "-o", "link.tflite"),
        ("simulate", "own.tflite", *pet),
        ("generate", "own.tflite", *pet, "-o", "project"),
    ):
        said = run(*command).sentence
        assert "link.tflite is the model itself" in said
        assert "give another file" in said
    with pytest.raises(ArgumentError, match="is the model itself"):
        mcutrain.augment("own.tflite", "gain", output="link.tflite")
    assert Path("own.tflite").read_bytes() == model.read_bytes()


def test_samples_of_another_shape_and_other_files_are_explained(run: Run, model: Path) -> None:
    np.savez("other.npz", x=np.zeros((9, 7), np.float32), y=np.arange(9) % 3)
    flags = ("--modules", "adapter:2", "--data", "other.npz")
    said = run("augment", model, *flags, "-o", "a.tflite").sentence
    assert "have the shape (7,) but the model takes (28, 28, 1)" in said
    assert "must end with" in run("augment", model, *flags, "-o", "a.pb").sentence
    x = np.random.default_rng(0).random((9, 7), np.float32)
    with pytest.raises(DataError):
        mcutrain.augment(model, "adapter:2", (x, np.arange(9) % 3))


def test_a_scheme_of_modules_is_explained_where_there_are_none(run: Run, model: Path) -> None:
    sentence = run("plan", model, "--scheme", "modules").sentence
    assert "has none: `mcutrain augment` adds them" in sentence
    assert "did you mean 'modules'?" in run("plan", model, "--scheme", "module").sentence


def test_a_file_can_say_modules(run: Run, model: Path) -> None:
    run("augment", model, "--modules", "gain", "-o", "g.tflite")
    Path("s.toml").write_text("modules = true\nbias_depth = 2\n")
    plans = [
        run("plan", "g.tflite", "--scheme", s, "--json").json["state"]
        for s in ("s.toml", "modules,bias:2")
    ]
    assert plans[0] == plans[1]


FAST = ("--samples", 24, "--test-samples", 10, "--epochs", 1, "--lr", 0.1)


@pytest.mark.slow
def test_one_word_trains_modules_as_the_written_model_does(
    run: Run, model: Path, images: Path
) -> None:
    """The model that simulate saves is the one that it trained, and any state of it is exported."""
    flags = ("--data", images, *FAST, "--json")
    pet = ("--pet", "adapter:2,at=last:2,bias:3")
    direct = run("simulate", model, *pet, *flags).json
    saved = ("--save-model", "with.tflite", "--checkpoint", "run.npz")
    again = run("simulate", model, *pet, *saved, *flags).json
    written = run("simulate", "with.tflite", "--scheme", "modules,bias:3", *flags).json
    assert again["state_sha256"] == written["state_sha256"]
    losses = [[epoch["loss"] for epoch in facts["epochs"]] for facts in (direct, again)]
    assert losses[0] == losses[1]  # the state knows its model by the file's name, too
    exported = run("export", "with.tflite", "--state", "run.npz", "-o", "t.tflite", "--json").json
    assert any("module.adapter.up" in name for name in exported["changed"])
    original = run("export", model, "--state", "run.npz", "-o", "u.tflite", "--json").json
    assert original["changed"] == exported["changed"]
    assert run("diff", "t.tflite", "u.tflite", "--json").json["are_equal"]


@pytest.mark.parametrize(
    ("pet", "scheme"),
    [("bias:2", "bias:2"), ("linear", "head"), ("bias", "bias:25"), ("linear,bias:4", "bias:4")],
)
def test_words_without_modules_are_schemes(run: Run, model: Path, pet: str, scheme: str) -> None:
    plans = [run("plan", model, *flags, "--json").json for flags in (
        ("--pet", pet), ("--scheme", scheme)
    )]  # fmt: skip
    assert plans[0]["state"] == plans[1]["state"]
    assert plans[0]["arena_bytes"] == plans[1]["arena_bytes"]


@pytest.mark.slow
def test_biases_are_trained_beside_the_modules_that_a_scheme_has(
    run: Run, model: Path, images: Path
) -> None:
    """A word of --pet adds to the scheme; it takes nothing from it."""
    run(
        "augment",
        model,
        "--modules",
        "adapter:2,at=last:2",
        "--data",
        images,
        *FEW,
        "-o",
        "w.tflite",
    )
    for scheme in ("modules", "some.toml"):
        Path("some.toml").write_text('[modules]\n"adapter@block8/add" = 1\n')
        plans = [
            run("plan", "w.tflite", *flags, "--json").json
            for flags in (
                ("--scheme", scheme),
                ("--scheme", scheme, "--pet", "bias:2"),
                ("--scheme", f"{scheme},bias:2") if scheme == "modules" else ("--scheme", scheme),
            )
        ]
        assert plans[1]["state_bytes"] > plans[0]["state_bytes"]
        if scheme == "modules":
            assert plans[1]["state"] == plans[2]["state"]


def test_a_plan_needs_no_samples_for_modules(run: Run, model: Path, images: Path) -> None:
    planned = run("plan", model, "--pet", "lora-fa:2", "--scheme", "bias:3", "--json").json
    run("augment", model, "--modules", "lora-fa:2", "--data", images, *FEW, "-o", "w.tflite")
    expected = run("plan", "w.tflite", "--scheme", "modules,bias:3", "--json").json
    for key in ("arena_bytes", "state_bytes", "state"):
        assert planned[key] == expected[key]
    from_python = mcutrain.plan(model, "bias:3", pet="lora-fa:2")
    assert from_python.to_dict()["sram_bytes"] == planned["sram_bytes"]


@pytest.fixture
def asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison has no rows that nobody asked for."""
    for module in ("experiments.planner", "functions.comparing"):
        monkeypatch.setattr(f"mcutrain.{module}.usual", lambda *_: [])


@pytest.mark.slow
@pytest.mark.usefixtures("asked_alone")
def test_comparisons_have_rows_of_modules(run: Run, model: Path, images: Path) -> None:
    few = ("--samples", 24, "--test-samples", 10, "--epochs", 1, "--lr", 0.05, "--seeds", 1)
    pets = ("gain,at=last:2", "adapter:2,at=last:1")
    flags = [flag for pet in pets for flag in ("--pet", pet)]
    rows = run(
        "compare", model, "--data", images, *few, *flags, "--jobs", 1, "-o", "report", "--json"
    ).json["rows"]  # fmt: skip
    assert [row["name"] for row in rows][-2:] == list(pets)
    for pet, row in zip(pets, rows[-2:], strict=True):
        planned = run("plan", model, "--pet", pet, "--json").json
        assert row["state_bytes"] == planned["state_bytes"]
        single = run("simulate", model, "--data", images, *few[:-2], "--pet", pet, "--json").json
        assert row["accuracy"] == single["accuracy"]
    assert Path("report/report.html").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("asked_alone")
def test_words_are_the_same_from_python(run: Run, model: Path, images: Path) -> None:
    flags = ("--samples", 20, "--test-samples", 10, "--epochs", 1, "--lr", 0.1)
    facts = run("simulate", model, "--data", images, *flags, "--pet", "gain", "--json").json
    counts = {"samples": 20, "test_samples": 10, "epochs": 1, "learning_rate": 0.1}
    result = mcutrain.simulate(model, images, pet="gain", **counts)
    assert result.to_dict()["state_sha256"] == facts["state_sha256"]
    compared = mcutrain.compare(model, images, pets=["gain"], seeds=1, jobs=1, **counts)
    assert compared.rows[-1].accuracies == (result.accuracy,)
    with pytest.raises(ArgumentError, match="has its modules already"):
        mcutrain.plan(mcutrain.prepare(model), pet="gain")
    with pytest.raises(SchemeError, match="names nothing"):
        mcutrain.plan(model, pet="")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--pet", "adaptr:2"), "there is no module 'adaptr'"),
        (("--pet", "gain,rate:0"), "rate:F multiplies the learning rate of modules"),
        (("--pet", "gain,rate:1e-9"), "with 1e-06 to 1e+06, as in rate:0.1"),
        (("--pet", "gain,rate:٣"), "with 1e-06 to 1e+06, as in rate:0.1"),
        (("--pet", "gain,rate"), "rate:F multiplies the learning rate of modules"),
        (("--pet", "gain,rate:1,rate:2"), "rate is there twice"),
        (("--pet", "bias,rate:0.1"), "rate:F is of modules, and there are none"),
        (("--pet", "bias:0"), "bias:K trains the last K biases, as in bias:4"),
        (("--pet", "gain,linear:3"), "linear takes no number: it is the whole classifier"),
        (("--pet", ""), "'' names nothing: give bias, bias:K, linear, or adapter:R"),
        (("--pet", ","), "',' names nothing beside a comma"),
        (("--pet", "gain,,bias"), "names nothing beside a comma"),
        (("--pet", "bias,bias"), "'bias,bias': bias is there twice"),
        (("--pet", "bias:2,gain,bias:4"), "bias is there twice"),
        (("--pet", "linear,linear"), "linear is there twice"),
        (("--pet", "bias:99"), "the model has 25 layers before its head"),
        (("--pet", "bias:2", "--save-model", "x.tflite"), "leave it out"),
        (("--save-model", "x.tflite"), "give that, too"),
        (("--pet", "gain", "--save-model", "x.bin"), "must end with"),
        (("--pet", "adapter:99"), "fewer than 99"),
        (("--pet", "lora:2", "--resample", "drawn"), "stay where they are"),
        (("--pet", "bias:2", "--scheme", "linear-bias:4"), "those of others, too: leave out one"),
    ],
)
def test_wrong_words_are_explained(
    run: Run, model: Path, images: Path, flags: tuple[str, ...], says: str
) -> None:
    assert says in run("simulate", model, "--data", images, *FAST, *flags).err


@pytest.mark.slow
def test_what_was_learnt_is_merged_into_the_model(run: Run, model: Path, images: Path) -> None:
    few = ("--data", images, *FAST, "--pet", "lora-fa:2,at=last:4")
    run("simulate", model, *few, "--save-model", "with.tflite", "--checkpoint", "run.npz")
    export = ("export", "with.tflite", "--state", "run.npz", "--merge")
    facts = run(*export, "-o", "merged.tflite", "--json").json
    assert facts["merged"].startswith("4 modules merged into their layers, ")
    assert "on 20 made-up inputs" in facts["merged"]
    assert facts["written_anew_because"] == "modules are merged into its layers"
    before, after = (run("info", path, "--json").json for path in (model, "merged.tflite"))
    for what in ("macs", "weights", "trainable_layers"):
        assert before[what] == after[what]
    text = run(*export, "-o", "merged.onnx").out
    assert f"{facts['merged']}." in text
    done = mcutrain.export("with.tflite", "again.tflite", "run.npz", merge=True)
    assert done.merged == facts["merged"]
    assert Path("again.tflite").read_bytes() == Path("merged.tflite").read_bytes()


def test_nothing_to_merge_is_a_sentence(run: Run, model: Path) -> None:
    assert (
        "no modules that can be merged"
        in run("export", model, "--merge", "-o", "m.tflite").sentence
    )
    assert not Path("m.tflite").exists()


@pytest.mark.slow
def test_a_project_of_one_word_is_that_of_the_written_model(
    run: Run, model: Path, images: Path
) -> None:
    pet = ("--pet", "adapter:2,at=last:2", "--data", images, "--save-model", "with.tflite")
    run("generate", model, *pet, "--scheme", "bias:2", "-o", "a")
    run("augment", model, "--modules", "adapter:2,at=last:2", "--data", images, "-o", "b.tflite")
    assert Path("with.tflite").read_bytes() == Path("b.tflite").read_bytes()
    run("generate", "with.tflite", "--scheme", "modules,bias:2", "-o", "b")
    names = [path.name for path in Path("a/src").glob("mct_*.c")]
    assert len(names) > 2
    for name in names:
        lines = [Path(folder, "src", name).read_text().splitlines() for folder in "ab"]
        differing = [a for a, b in zip(*lines, strict=True) if a != b]
        assert not [line for line in differing if "generated by" not in line], name
    sentence = run("generate", model, "--pet", "gain", "-o", "c").err
    assert "give --data, training samples" in sentence
    assert "is read for --scheme auto, for modules of --pet" in run(
        "generate", model, "--scheme", "head", "--data", images, "-o", "c"
    ).err  # fmt: skip
    front = ("generate", model, "--pet", "gain", "--part", "front", "-o", "f.tflite")
    assert "--pet" in run(*front).err
    run("generate", model, "--pet", "bias:3", "-o", "d")
    assert Path("d/src/mct_model.c").exists()


@pytest.mark.slow
def test_modules_are_selected_and_the_others_are_left_out(
    run: Run, images: Path, tmp_path: Path
) -> None:
    """Of a network with one block: that the demo's has more schemes proves no more."""
    data, kinds = ("--data", images), "adapter:4,lora-fa:4,gain"
    run("augment", write_block(tmp_path), "--modules", kinds, *data, *FEW, "-o", "all.tflite")
    few = ("--samples", 40, "--test-samples", 20, "--lr", 0.0005)
    run("analyze", "all.tflite", *data, *few, "--by", "gradient", "-o", "a.json")
    tried = json.loads(Path("a.json").read_text())["gains"]["learnable"]["modules"]
    (adapter,) = (name for name in tried if name.startswith("adapter@"))
    assert set(tried[adapter]) == {"1", "2", "4"}
    least = run("plan", "all.tflite", "--scheme", "head", "--json").json["sram_bytes"]
    most = run("plan", "all.tflite", "--scheme", "modules", "--json").json["sram_bytes"]
    limit = (least + most) // 2
    found = run(
        "select", "all.tflite", "--analysis", "a.json", "--sram", limit, "-o", "chosen", "--json"
    ).json  # fmt: skip
    names = [m["name"] for m in found["modules"]]
    assert names
    assert set(names) < set(tried)
    assert found["sram_bytes"] <= limit
    report = Path("chosen/report.html").read_text()
    assert all(name in report for name in names)
    scheme = ("--scheme", "chosen/scheme.toml")
    plan = run("plan", "all.tflite", *scheme, "--json")
    assert f"{len(tried) - len(names)} modules of the model are not trained" in plan.err
    assert plan.json["sram_bytes"] == found["sram_bytes"]
    simulated = (*data, "--samples", 20, "--test-samples", 10, "--epochs", 1)
    run("simulate", "all.tflite", *scheme, *simulated, "--lr", 0.1, "--checkpoint", "run.npz")
    exported = run("export", "all.tflite", "--state", "run.npz", "-o", "trained.tflite", "--json")
    assert exported.json["written_anew_because"] == "modules that were not trained are left out"
    assert list(whole_modules(load("trained.tflite"))) == names
    assert run("verify", "trained.tflite", "--samples", 4, "--reference-samples", 1).code == 0
