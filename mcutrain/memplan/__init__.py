"""Where every buffer of a training step lies in the arena: solved, validated, printed."""

from mcutrain.memplan.ladder import Ladder
from mcutrain.memplan.latent import Latent, find_latent, front, latents, saves_much, tail
from mcutrain.memplan.picture import picture
from mcutrain.memplan.plan import Buffer, MemoryPlan
from mcutrain.memplan.replay import replay
from mcutrain.memplan.solver import solve
from mcutrain.memplan.table import read_csv, to_csv
from mcutrain.memplan.training_plan import (
    Layout,
    Stream,
    TrainingPlan,
    check_board,
    check_budget,
    lay_out,
    plan_training,
    rows_kept,
    state_parts,
)
from mcutrain.memplan.validate import validate

__all__ = [
    "Buffer",
    "Ladder",
    "Latent",
    "Layout",
    "MemoryPlan",
    "Stream",
    "TrainingPlan",
    "check_board",
    "check_budget",
    "find_latent",
    "front",
    "latents",
    "lay_out",
    "picture",
    "plan_training",
    "read_csv",
    "replay",
    "rows_kept",
    "saves_much",
    "solve",
    "state_parts",
    "tail",
    "to_csv",
    "validate",
]
