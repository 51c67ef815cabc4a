"""Where every buffer of a training step lies in the arena: solved, validated, printed."""

from mcutrain.memplan.contents import check_contents
from mcutrain.memplan.fronts import front_constant_bytes, plan_with_ladder
from mcutrain.memplan.ladder import Ladder
from mcutrain.memplan.latent import (
    DEEPEST,
    Latent,
    find_latent,
    front,
    front_macs,
    latents,
    saves_much,
    tail,
)
from mcutrain.memplan.picture import picture
from mcutrain.memplan.placed import Placed, PlannedFront, PlannedLadder, PlannedSteps
from mcutrain.memplan.plan import Buffer, MemoryPlan
from mcutrain.memplan.solver import solve
from mcutrain.memplan.table import STEP, read_csv, read_fronts, to_csv
from mcutrain.memplan.training_plan import (
    LeastMemory,
    ScheduledStep,
    Stream,
    TrainingPlan,
    check_board,
    check_budget,
    lay_out,
    plan_training,
    rows_kept,
    state_parts,
    with_whole_images,
)
from mcutrain.memplan.validate import validate

__all__ = [
    "DEEPEST",
    "STEP",
    "Buffer",
    "Ladder",
    "Latent",
    "LeastMemory",
    "MemoryPlan",
    "Placed",
    "PlannedFront",
    "PlannedLadder",
    "PlannedSteps",
    "ScheduledStep",
    "Stream",
    "TrainingPlan",
    "check_board",
    "check_budget",
    "check_contents",
    "find_latent",
    "front",
    "front_constant_bytes",
    "front_macs",
    "latents",
    "lay_out",
    "picture",
    "plan_training",
    "plan_with_ladder",
    "read_csv",
    "read_fronts",
    "rows_kept",
    "saves_much",
    "solve",
    "state_parts",
    "tail",
    "to_csv",
    "validate",
    "with_whole_images",
]
