"""The generated C is a frame with slots, which the parts of a program fill.

codegen_templates/mct_model.c.j2 and mct_model.h.j2 are the frame. A part is a folder with
`model.c.j2` and `model.h.j2`, in which a block `{% block reset %}` goes where the frame, or another
part, has `{% slot reset %}`. A feature's part lies in its folder of mcutrain/features/, beside its
Python. codegen_templates/parts/ has those of no feature, which follow from the plan.

PARTS has the order in which parts fill a slot. A slot of ONE takes the
last of them; where there is none, the block of the part `plain`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.features import (
    FEATURES,
    IMPRINT,
    LATENTS,
    LATER,
    REPLAY,
    ProgramFeature,
    StepFeature,
)

PLAIN = "plain"
FOLDERS = ("features", "parts")
"""Where parts lie, in the folders of mcutrain and of the templates."""


@dataclass(frozen=True)
class ProgramPart:
    """A part of a program.

    value: of the templates, without which a program does not have it. over: parts whose place it
    takes, or to whose C it adds; they stand ahead of it. commands, commands_without: as of a
    StepFeature.
    """

    name: str
    value: str
    over: tuple[str, ...] = ()
    commands: str = ""
    commands_without: str = ""


def _part_of(feature: StepFeature | ProgramFeature) -> ProgramPart:
    value = feature.value if isinstance(feature, ProgramFeature) else ""
    commands = (feature.commands, feature.commands_without)
    return ProgramPart(feature.name, value or feature.name, feature.over, *commands)


BEFORE = (
    _part_of(REPLAY),
    ProgramPart("streamed", "segments"),
    ProgramPart("fed", "fed"),
    _part_of(IMPRINT),
    ProgramPart("reproduction", "reproduces"),
    ProgramPart("positions", "labels", ("reproduction",), "labels", "evaluate"),
    ProgramPart("targets", "takes_targets", over=("reproduction", "positions")),
    ProgramPart("accumulate", "apply"),
    _part_of(LATENTS),
    ProgramPart("kept_input", "remembers_input", ("imprint",), "latent"),
)
PARTS = (
    *BEFORE,
    *map(_part_of, FEATURES),
    *map(_part_of, LATER),
    ProgramPart("board_calls", "calls_between"),
)
"""In the order in which they fill slots."""
SLOTS: Mapping[str, tuple[str, ...]] = {
    "c": (
        *("includes", "level_header"),
        *("counters_comment", "memory", "tables_comment", "tables"),
        *("declarations", "level_declarations", "partial_fields", "stages"),
        *("forget", "reset", "after_reset"),
        *("feed", "refuse", "begin_sample"),
        *("fronts", "inference", "front", "refuse_null", "take_sample", "taken_front", "level"),
        *("latent_is_written", "before_latent", "before_inference", "after_inference", "infer"),
        *("labels", "known_labels"),
        *("sample", "piece_choose", "before_step", "step_numbers", "piece_open", "piece_decide"),
        *("piece_count", "piece_close", "updates"),
        *("train", "before_tail", "level_is_known"),
        *("step", "step_is", "after_loss", "gated_updates"),
        *("after_group", "after_step", "after_tail", "take_trained_sample", "abort"),
        *("functions", "imprint_functions", "void_type", "is_ok", "sample_is_lost", "returns"),
        *("state_header", "state_middle", "state_rest", "content_bytes", "state_is_sound"),
        "state_loaded",
    ),
    "h": (
        *(
            "usage",
            "rows_comment",
            "usage_more",
            "includes",
            "state_includes",
            "outputs",
            "update_comment",
        ),
        *("feed", "labels", "label_place", "label_check", "inference", "no_result"),
        *("latents", "latent_differs", "fronts"),
        *("train_label", "train_sample", "train_result"),
        *("functions", "no_sample", "imprint_functions"),
        *("saved", "void_type", "load_comment", "more", "position", "last", "quantize"),
        "quantize_pixels",
    ),
}
"""By file, in the order in which the frame and its parts reach them."""
ONE: Mapping[str, frozenset[str]] = {
    "c": frozenset(
        (
            *("level_header", "feed", "inference", "front", "taken_front", "level", "infer"),
            *("known_labels", "sample", "updates", "train"),
            *("step", "step_is", "step_numbers", "after_group"),
            *("state_header", "state_rest", "content_bytes", "state_is_sound", "void_type"),
        )
    ),
    "h": frozenset(
        (
            *("usage", "outputs", "feed", "label_place", "label_check", "inference"),
            *("train_label", "train_result", "saved", "position", "quantize"),
            *("quantize_pixels", "void_type"),
        )
    ),
}
"""Slots of which the last part takes the place of all others."""


def parts_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of a program, in the order in which they fill slots. values: of its templates."""
    return tuple(part.name for part in PARTS if values[part.value])


def commands_of(parts: Collection[str]) -> tuple[str, ...]:
    """What a board with these parts carries out besides what every one does, by files' names."""
    found = (p.commands if p.name in parts else p.commands_without for p in PARTS)
    return tuple(dict.fromkeys(filter(None, found)))


def filled(slot: str, language: str, blocks: Mapping[str, Container[str]]) -> list[str]:
    """Return which parts fill a slot. blocks: by part, in order, PLAIN last."""
    found = [part for part, names in blocks.items() if slot in names and part != PLAIN]
    if slot not in ONE[language]:
        return found
    return found[-1:] or [part for part in (PLAIN,) if slot in blocks[part]]


def template_names(part: str, language: str) -> list[str]:
    """Names that the template of a part may have; one of them is there, if it fills a slot."""
    return [f"{folder}/{part}/model.{language}.j2" for folder in FOLDERS]
