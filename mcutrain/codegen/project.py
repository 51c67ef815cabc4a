"""A planned training step as files: generated sources, the kernels they use, a manifest."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.files import keep_others, replace_folder, restore_folder
from mcutrain_host.manifest import (
    CROSS_ENTROPY,
    FILE,
    FORMAT,
    BoardDescription,
    EdgeTensor,
    LabelOutputs,
    LatentTensor,
    Manifest,
    SampleOrder,
)
from mcutrain_host.objects import BUILD

from mcutrain import data
from mcutrain.autodiff import Classifier, TrainGraph
from mcutrain.codegen import firmware, packages
from mcutrain.codegen.bodies import HEADER, header, library_bodies, library_flags
from mcutrain.codegen.c_text import CTYPES, characters, comment, is_long, lines, string
from mcutrain.codegen.estimates import estimate_lines
from mcutrain.codegen.interface import DEFAULT, DEFAULT_PREFIX, Interface
from mcutrain.codegen.isa import check_isa
from mcutrain.codegen.program import BETWEEN_NODES, HOOK, Program, headers_of, sources_of
from mcutrain.codegen.slots import commands_of, parts_of
from mcutrain.codegen.templates import render
from mcutrain.errors import McutrainError
from mcutrain.features import (
    FEATURES,
    PROGRAM_FEATURES,
    bytes_of_ring,
    features_of,
    features_of_program,
)
from mcutrain.ir.graph import TensorType
from mcutrain.ir.text import dump
from mcutrain.memplan import Latent, TrainingPlan, find_latent, front_macs, to_csv
from mcutrain.target import Target

TEMPLATES = (
    "mct_model.h",
    "mct_model.c",
    "mct_constants.h",
    "mct_tables.h",
    "mct_constants.c",
)
"""Into the folder of sources; mct becomes the model's prefix."""
BOARD_HEADERS = ("mct_board_config.h", "mct_commands.h")
"""Beside a board's sources."""
OPTIONAL = {"mct_class_names.c": "class_names", "mct_pixel_codes.c": "pixel_codes"}
"""More of them → the value without which there is nothing to write."""
BUILD_SYSTEMS = ("CMakeLists.txt", "Makefile", "library.properties")
EXAMPLE = "example/main.c"
LICENSE = "LICENSE"
RUNTIME_SOURCES = ("mct_gradient", "mct_update", "mct_schedule", "mct_state")
MANY_CONSTANTS = 2**21
"""Bytes, more than the flash of a microcontroller; their longer tables are written as characters,
which compilers read twenty times as fast as numbers."""
RUNTIME_HEADERS = ("mct_fixedpoint", "mct_quantize", "mct_types")


@dataclass(frozen=True)
class Project:
    """Files by relative path, in sorted order. Equal inputs give equal bytes."""

    files: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Put the files into `folder`, which is replaced as a whole or not at all.

        Of an earlier project there only its own files and what was built of them go; all else
        stays, as the trained state and the log of the training do.

        Raises McutrainError if the folder holds something else than such a project, or a file that
        the project would replace and no project wrote.
        """
        restore_folder(folder)
        is_empty = folder.is_dir() and not any(folder.iterdir())
        if folder.exists() and not is_empty and not (folder / "manifest.json").is_file():
            raise McutrainError(
                f"{folder} exists and is no mcutrain project; give another folder, or empty it"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, text in self.files.items():
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            if folder.is_dir():
                own = _written_before(folder, self)
                own |= _built_of(own)
                keep_others(folder, fresh, own.__contains__)
            fresh.chmod(0o755)
            replace_folder(fresh, folder)
        except FileExistsError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise McutrainError(f"{error.filename}: {error.strerror}") from error
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    @property
    def model_hash(self) -> str:
        """16 hexadecimal digits of model, scheme and layout of the state; boards have it too."""
        return str(json.loads(self.files[FILE])["model_hash"])

    @property
    def digest(self) -> str:
        """A hash of all names and contents."""
        joined = hashlib.sha256()
        for name, text in sorted(self.files.items()):
            joined.update(f"{name}\0{text}\0".encode())
        return joined.hexdigest()


def generate(
    plan: TrainingPlan,
    scheme: str,
    target: Target | None = None,
    recipe: Mapping[str, Any] | None = None,
    interface: Interface = DEFAULT,
) -> Project:
    """The C project of a plan: a library, or a board's whole firmware.

    scheme: its name, for comments and the manifest. recipe: how the plan was made from the model,
    for the manifest, so that what is trained can be put back into the model. interface: names in
    the C; a board's firmware calls them by the default prefix. Raises McutrainError.
    """
    _check(plan, target, interface)
    if target is not None:
        target = firmware.with_latents(target, plan, interface)
    is_tail = plan.training.is_tail
    wanted = firmware.wanted_latent(plan, interface)
    latent = None if wanted is None or is_tail else find_latent(plan, wanted)
    timing = interface.timing
    timed = () if timing is None else tuple(node.name for node in timing.nodes)
    classifier = Classifier.of(plan.training) if interface.centre else None
    between = _between(target, interface.prefix)
    program = Program(plan, interface.prefix, latent, timed, classifier, between)
    isa = interface.isa if target is None else target.isa
    names = firmware_files(program, interface)
    found = library_bodies(names, isa)
    values = template_values(plan, program, scheme, interface)
    values["is_library"] = target is None
    values["pixel_hint"] = _pixel_hint(values)
    values["parts"] = parts_of(values)
    if target is None:  # a board's samples come from its host, which varies them
        more = firmware.library_files(bool(interface.remember))
    else:
        ring = ("replay",) if target.remember else ()
        values["commands"] = commands_of((*values["parts"], *ring))
        more = firmware.board_files(target, values["commands"])
    found |= firmware.with_includes(more)
    files = {firmware.place_of(name): text for name, text in found.items()}
    for name in [*TEMPLATES, *(n for n, needed in OPTIONAL.items() if values[needed])]:
        place = f"{firmware.SOURCE_FOLDER}/{interface.prefix}{name.removeprefix('mct')}"
        files[place] = render(f"{name}.j2", values)
    facts = manifest(plan, program, scheme, interface, recipe)
    if target is None:
        files[HEADER] = header(isa)
        values["flags"] = library_flags(isa)
        values["sources"] = [n for n in sorted(files) if n.endswith(".c")]
        files |= _build_files(interface, files, values)
    else:
        made, board = _board_files(plan, scheme, target, values, files, latent)
        files |= made
        facts = replace(facts, board=board)
    files[LICENSE] = packages.licence()
    files["plan.csv"] = to_csv(plan.arena, plan.front_arenas)
    files["graph.txt"] = _graphs(plan)
    facts = replace(facts, files=tuple(sorted((*files, FILE))))
    files[FILE] = facts.to_json()
    return Project(dict(sorted(files.items())))


def _check(plan: TrainingPlan, target: Target | None, interface: Interface) -> None:
    """Raise McutrainError for what a program of this plan cannot have."""
    interface.check_classes(plan.training.named, plan.training.has_labels)
    if target is not None and interface.prefix != DEFAULT_PREFIX:
        raise McutrainError(
            "a board's firmware has one model, under the names that it knows: "
            "leave out the prefix, or the board to get a library"
        )
    check_isa(interface.isa, target)
    packages.check_package(interface.package, target)
    for feature in PROGRAM_FEATURES:
        if feature.check is not None:
            feature.check(plan.training, interface, target is not None)
    if plan.training.is_tail and interface.normalization is not None:
        raise McutrainError("mean and std are of pixels, but a tail takes latents: leave them out")


def _between(target: Target | None, prefix: str) -> str:
    """Return what stands between nodes; a library's user may define it."""
    if target is None:
        return HOOK.format(prefix.upper())
    return BETWEEN_NODES if target.calls_between else ""


def _build_files(
    interface: Interface, files: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, str]:
    """Return what a library has beside its sources, and sources that a package changes."""
    if interface.package:
        return packages.package_files(interface.package, files, values)
    found = {name: render(f"{Path(name).name}.j2", values) for name in BUILD_SYSTEMS}
    return {**found, EXAMPLE: render("example.c.j2", values)}


def _written_before(folder: Path, project: Project) -> frozenset[str]:
    """The files of the project that lies in a folder.

    Manifests of earlier versions name none: then it is what lies where the new one's files do.
    """
    try:
        named = frozenset(Manifest.read(folder / FILE).files)
    except (OSError, HostError):
        named = frozenset()
    if named:
        return named
    places = {Path(name).parent for name in project.files if "/" in name}
    inside = {f"{place.as_posix()}/{p.name}" for place in places for p in _files(folder / place)}
    return frozenset(project.files) | inside


def _built_of(own: frozenset[str]) -> frozenset[str]:
    """Return what `mcutrain build` and the project's Makefile make of its files."""
    objects = {f"{name[:-2]}.o" for name in own if name.endswith(".c")}
    models = (re.fullmatch(rf"{firmware.SOURCE_FOLDER}/(.+)_model\.c", name) for name in own)
    libraries = {f"lib{model[1]}.a" for model in models if model}
    return frozenset((*objects, *libraries, EXAMPLE.removesuffix(".c"), f"{BUILD}/"))


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []


def _graphs(plan: TrainingPlan) -> str:
    """Return what is computed: the step, and each front of a proxy cascade under its name."""
    fronts = {} if plan.ladder is None else plan.ladder.named
    named = (replace(front.graph, name=name) for name, front in fronts.items())
    return "\n".join(map(dump, (plan.training.graph, *named)))


def ring_bytes(plan: TrainingPlan, interface: Interface) -> int:
    """Bytes of the ring of latents in a library's memory; 0 if there is none."""
    if interface.remember == 0 or interface.wanted_latent is None:
        return 0
    training, wanted = plan.training, firmware.wanted_latent(plan, interface)
    assert wanted is not None, "what is remembered is a latent"
    x = training.input_type
    latent = x if training.is_tail else find_latent(plan, wanted).type
    return bytes_of_ring(interface.remember, latent.size_bytes)


def _board_files(
    plan: TrainingPlan,
    scheme: str,
    target: Target,
    values: dict[str, Any],
    files: Mapping[str, str],
    latent: Latent | None,
) -> tuple[dict[str, str], BoardDescription]:
    """Return what is written for one board, and what the manifest says of it."""
    values |= firmware.board_values(target, plan, scheme, latent)
    values["firmware_bytes"] = target.firmware_bytes()
    made = {name: render(f"{name}.j2", values) for name in BOARD_HEADERS}
    if not target.is_hosted:
        made["memory.ld"] = render("memory.ld.j2", values)
    board = firmware.board_facts(target, plan, {**files, **made})
    values["compile"] = board.compile
    values["uf2_base"], values["uf2_family"] = board.output.uf2_base, board.output.uf2_family
    return {**made, "Makefile": render("Makefile_board.j2", values)}, board


def firmware_files(program: Program, interface: Interface = DEFAULT) -> dict[str, str]:
    """The runtime and the portable kernels that are used, without what they include."""
    names = [f"runtime/{name}.c" for name in RUNTIME_SOURCES]
    names += ["runtime/mct_stream.c"] if program.segments else []
    for feature in features_of(program.training):
        names += feature.sources(program.training)
    for more in features_of_program(program, interface):
        names += more.sources(program, interface)
    names += [f"runtime/{name}.h" for name in RUNTIME_HEADERS]
    names += sources_of(program.kernels)
    return {name: firmware.firmware_text(name) for name in names}


def template_values(
    plan: TrainingPlan, program: Program, scheme: str, interface: Interface
) -> dict[str, Any]:
    """All that the templates may refer to."""
    return {
        **_name_values(plan, scheme, interface),
        **_step_values(plan),
        **_input_values(plan, interface),
        **_code_values(program, interface),
    }


def _name_values(plan: TrainingPlan, scheme: str, interface: Interface) -> dict[str, Any]:
    """Return what things are called, and what made them."""
    return {
        "prefix": interface.prefix,
        "PREFIX": interface.prefix.upper(),
        "class_names": [string(name) for name in interface.class_names],
        "model": comment(plan.training.graph.name),
        "scheme": comment(scheme),
        "estimates": estimate_lines(interface.estimates, interface.prefix),
        "version": _version(),
        "version_number": version_number(_version()),
    }


def _step_values(plan: TrainingPlan) -> dict[str, Any]:
    """Return how large a step is, and what it gives."""
    training = plan.training
    y = training.forward.tensors[training.forward.outputs[0]].type
    return {
        "arena_bytes": plan.arena_bytes,
        "state_bytes": plan.state_bytes,
        "constant_bytes": plan.constant_bytes,
        "shelf_bytes": plan.backing_bytes,
        "accumulate": f"{training.accumulate}u",
        "classes": training.classes,
        "threshold": training.threshold,
        "has_rows": training.has_rows,
        "has_labels": training.has_labels,
        "reproduces": not training.has_labels,
        "takes_targets": training.takes_targets,
        "output_bytes": y.size_bytes,
        "output_scale": f"{y.scale:.9g}",
        "output_zero_point": y.zero_point,
        "row": _row_lines(training),
    }


def _row_lines(training: TrainGraph) -> list[str]:
    """A line for each of several outputs: where it lies in the row, and what its numbers mean."""
    found, first, forward = [], 0, training.forward
    for name, tensor in zip(forward.output_names, forward.row, strict=True):
        y = forward.tensors[tensor].type
        last = first + y.elements - 1
        found.append(
            f"[{first}] to [{last}]: {comment(name)}, (value - {y.zero_point}) * {y.scale:.9g}"
        )
        first = last + 1
    return found


def _input_values(plan: TrainingPlan, interface: Interface) -> dict[str, Any]:
    """Return what a step takes: a sample, or a tail's latent."""
    training = plan.training
    x = training.input_type
    return {
        "remembers_input": training.is_tail and interface.remember > 0,
        "begins_with": comment(training.x) if training.is_tail else None,
        "pixels": "" if training.is_tail else _pixels(x, interface.normalization),
        "pixel_codes": _pixel_codes(x, interface.normalization),
        "ids": training.vocabulary,
        "input_shape": (*(1,) * (4 - len(x.shape)), *x.shape[1:]),
        "input_bytes": x.size_bytes,
        "input_scale": f"{x.scale:.9g}",
        "input_zero_point": x.zero_point,
    }


def _code_values(program: Program, interface: Interface) -> dict[str, Any]:
    """Return what the functions compute, and the tables that they read."""
    forward = program.training.forward
    return {
        "model_hash": program.model_hash,
        **_label_values(program, interface.prefix),
        "output_exponent": _output_exponent(program),
        "output_exponent_now": _output_exponent_now(program),
        "headers": headers_of(program.kernels),
        "tables": program.tables,
        "params": program.params,
        "initial": program.initial,
        "biases": program.biases,
        "exponents": list(lines(program.exponents)),
        "input": None if program.is_fed else _input(program),
        "fed": program.fed if program.is_fed else None,
        "feed": program.feed if program.is_fed else None,
        "calls_between": program.between == BETWEEN_NODES,
        "segments": program.segments,
        "output": program.expression(forward, forward.outputs[0]),
        "behind_latent": _behind_latent(program),
        "front": program.front,
        "infer": program.infer,
        "forward": program.forward,
        "loss": program.loss,
        "backward": program.backward,
        **_feature_values(program, interface),
        "apply": program.apply,
        "constants": _constants(program),
    }


def _input(program: Program) -> str:
    """Return where the sample's bytes are, as C."""
    training = program.training
    place = program.expression(training.forward, training.x)
    return f"(int8_t *){place}" if training.vocabulary else place


def _version() -> str:
    """Return mcutrain's own version."""
    from importlib.metadata import version  # needs all of email, which plans do not

    return version("mcutrain")


def version_number(text: str) -> int:
    """MCT_VERSION of a version: 10000 * major + 100 * minor + patch."""
    major, minor, patch = (int(part) for part in re.findall(r"\d+", text)[:3])
    return 10000 * major + 100 * minor + patch


def _pixels(x: TensorType, norm: data.Normalization | None) -> str:
    """Return how a pixel becomes the input's code: by `table`, by `offset`, or nobody knows."""
    if norm is not None:
        return "table"
    return "offset" if data.takes_pixels(x.scale, x.zero_point) else ""


def _pixel_hint(values: Mapping[str, Any]) -> str:
    """Return how a library of images that has no functions for pixels gets them, or nothing."""
    height, _, channels = values["input_shape"][-3:]
    others = values["pixels"] or values["ids"] or values["begins_with"]
    if not values["is_library"] or others or height == 1 or channels not in (1, 3):
        return ""
    return "; pixels need `mcutrain generate --mean --std`"


def _pixel_codes(x: TensorType, norm: data.Normalization | None) -> list[Sequence[str]]:
    """The input's code of each pixel value as lines of C, by channel."""
    if norm is None:
        return []
    channels = x.shape[-1]
    if len(norm.mean) not in (1, channels):
        raise McutrainError(
            f"there are {len(norm.mean)} means but the model takes {channels} channels: give one "
            "per channel, or one for all"
        )
    pairs = zip(norm.mean, norm.std, strict=True)
    return [lines(data.pixel_codes(mean, std, x.scale, x.zero_point)) for mean, std in pairs]


def _output_exponent(program: Program) -> str | None:
    """The C pointer to the outputs' exponent; None if they have none, as probabilities."""
    forward, name = program.training.forward, program.training.output_exponent
    if name not in forward.inputs or forward.gives_probabilities:
        return None
    return program.expression(forward, name)


def _output_exponent_now(program: Program) -> str:
    """By which power of two the outputs' scale has grown, in C."""
    exponent = _output_exponent(program)
    return "0" if exponent is None else f"{exponent}->now"


def _label_values(program: Program, prefix: str) -> dict[str, Any]:
    """Return where labels of positions, or a target, lie; and how functions take a number.

    labels: None for a number that is an argument.
    """
    training, is_wrong = program.training, f"label < 0 || label >= {prefix.upper()}_CLASSES"
    found = None
    if training.positions:
        place = program.expression(training.graph, training.label)
        is_wrong = f"label != 0 || !{prefix}_labels_are_known()"
        found = {
            "count": training.label_type.size_bytes,
            "dtype": training.label_type.dtype,
            "shape": " x ".join(map(str, training.positions)),
            "place": f"(uint8_t *){place}" if training.takes_targets else place,
            "ranges": training.label_ranges,
        }
    is_number = training.has_labels and not training.positions
    return {
        "labels": found,
        "wrong_label": is_wrong,
        "label_parameter": "int32_t label, " if is_number else "",
        "label_argument": "label, " if is_number else "",
    }


def _label_outputs(training: TrainGraph) -> LabelOutputs | None:
    if training.threshold is None or not training.positions:
        return None
    return LabelOutputs(channels=training.channels, threshold=training.threshold)


def _latent_facts(program: Program) -> LatentTensor | None:
    latent = program.latent
    if latent is None:
        return None
    t = latent.type
    return LatentTensor(name=latent.tensor, shape=t.shape, scale=t.scale, zero_point=t.zero_point)


def _behind_latent(program: Program) -> str:
    """Return what a comment says of functions that begin with the latent."""
    return "" if program.latent is None else f" from {comment(program.latent.tensor)} on"


def _feature_values(program: Program, interface: Interface) -> dict[str, Any]:
    """Values for the C of each feature, by its name; None of those that the program has not."""
    has, more = features_of(program.training), features_of_program(program, interface)
    steps = {f.name: f.code(program) if f in has else None for f in FEATURES}
    own = {f: f.code(program, interface) if f in more else None for f in PROGRAM_FEATURES}
    return {**steps, **{f.value or f.name: value for f, value in own.items()}}


def _constants(program: Program) -> list[dict[str, Any]]:
    """Names, types and lines of the tables."""
    size = sum(np.asarray(t.data).nbytes for _, t in program.constants.values())
    return [_constant(*c, size > MANY_CONSTANTS) for c in program.constants.values()]


def _constant(name: str, tensor: Any, as_characters: bool) -> dict[str, Any]:
    array = np.asarray(tensor.data)
    as_characters = as_characters and is_long(array)
    ctype = CTYPES[str(array.dtype)]
    return {
        "name": name,
        "ctype": ctype,
        "count": f"{array.size} + 1" if as_characters else array.size,  # a string ends with a 0
        "comment": comment(f"{tensor.name} {list(tensor.type.shape)}"),
        "as_characters": as_characters,
        "lines": characters(array) if as_characters else lines(array),
    }


def _sample_order(plan: TrainingPlan) -> SampleOrder | None:
    training = plan.training
    order = training.forward.input_order
    if order is None or training.is_tail or not (order.is_turned or order.frontend):
        return None
    text = "" if order.frontend is None else order.frontend.text
    return SampleOrder(file=order.file, shape=order.shape, axes=order.axes, frontend=text)


def manifest(
    plan: TrainingPlan,
    program: Program,
    scheme: str,
    interface: Interface,
    recipe: Mapping[str, Any] | None,
) -> Manifest:
    """Return what host tools need to know of the project, but for its board."""
    training = plan.training
    x = training.input_type
    y = training.forward.tensors[training.forward.outputs[0]].type
    found = Manifest(
        format=FORMAT,
        generator=f"mcutrain {_version()}",
        model=training.graph.name,
        model_hash=program.model_hash,
        scheme=scheme,
        classes=training.classes,
        samples_per_update=training.accumulate,
        input=EdgeTensor(
            shape=x.shape, scale=x.scale, zero_point=x.zero_point, ids=training.vocabulary
        ),
        output=EdgeTensor(shape=y.shape, scale=y.scale, zero_point=y.zero_point),
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena.lower_bound_bytes,
        state_bytes=plan.state_bytes,
        shelf_bytes=plan.backing_bytes,
        constant_bytes=plan.constant_bytes,
        state=plan.state.table.sections,
        parameters=tuple(training.parameters),
        loss=CROSS_ENTROPY if training.has_labels and not training.takes_targets else "mse",
        prefix=interface.prefix,
        positions=training.positions,
        label_outputs=_label_outputs(training),
        sample_order=_sample_order(plan),
        class_names=tuple(interface.class_names or ()),
        latent=_latent_facts(program),
        begins_with=training.x if training.is_tail else "",
        timing=interface.timing,
        recipe=recipe,
        start=training.start,
        macs=training.forward.macs(),
        front_macs=front_macs(plan),
    )
    for feature in features_of(training):
        found = replace(found, **feature.manifest(program, interface))
    return found
