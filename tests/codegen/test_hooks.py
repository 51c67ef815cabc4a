"""What a library's user may put between nodes: it is called there, and costs nothing undefined."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcutrain.codegen import Interface, Project, generate
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.sparse import UpdateScheme
from tests.codegen.test_own_program import STRICT, build_archive, compiler, run
from tests.codegen.test_project import plan_of, tiny
from tests.memplan.test_stream import mobile_network
from tests.simulation.networks import training_graph

CONFIG = """void count(void);
#define WAKE_BETWEEN_NODES() count()
"""
COUNTING = """
#include "wake_model.h"
#include <stdio.h>

void count(void);
static int calls;

void count(void)
{
    calls++;
}

int main(void)
{
    static const int8_t x[WAKE_INPUT_BYTES];
    mct_result result;
    wake_reset(1);
    (void)wake_feed(0, x, sizeof x);
    (void)wake_infer();
    const int inference = calls;
    (void)wake_feed(0, x, sizeof x);
    if (wake_train(0, MCT_RATE(0.1), &result) != MCT_OK) {
        return 1;
    }
    printf("%d %d", inference, calls - inference);
    return 0;
}
"""
HOOK = "WAKE_BETWEEN_NODES();"


def counted(project: Project, folder: Path) -> tuple[int, int]:
    """Calls of an inference, and of a step, each with its sample."""
    files = {**project.files, "src/mct_config.h": CONFIG}
    archive = build_archive(Project(files), folder / "p")
    (folder / "main.c").write_text(COUNTING)
    command = [compiler("gcc"), "-std=c11", *STRICT, f"-I{folder / 'p' / 'src'}"]
    run([*command, folder / "main.c", archive, "-o", folder / "program"])
    inference, step = run([folder / "program"]).split()
    return int(inference), int(step)


def in_rows() -> TrainingPlan:
    training = training_graph(mobile_network(), UpdateScheme())
    return plan_training(training, align_bytes=8, stream="max")


def test_a_hook_runs_behind_each_node(tmp_path: Path) -> None:
    plan = plan_of(tiny())
    nodes = sum(not node.op.is_view for node in plan.nodes)
    inference, step = counted(generate(plan, "x", interface=Interface("wake")), tmp_path)
    assert step == nodes
    assert 0 < inference < step


def test_nodes_that_compute_row_by_row_call_it_for_each_strip(tmp_path: Path) -> None:
    plan = in_rows()
    streamed = {name for segment in plan.segments for name in segment.nodes}
    strips = sum(place >= 0 for segment in plan.segments for place, *_ in segment.flow.strips())
    others = sum(not n.op.is_view and n.name not in streamed for n in plan.nodes)
    behind = sum(not segment.is_fed for segment in plan.segments)
    _, step = counted(generate(plan, "x", interface=Interface("wake")), tmp_path)
    assert strips > 4 * len(streamed)
    assert step == strips + others + behind


@pytest.mark.parametrize("plan", [plan_of(tiny()), in_rows()], ids=["whole", "rows"])
def test_an_undefined_hook_costs_nothing(plan: TrainingPlan, tmp_path: Path) -> None:
    """The same instructions as a program that has none."""
    files = generate(plan, "x", interface=Interface("wake")).files
    text = files["src/wake_model.c"]
    assert text.count(HOOK) > 10
    without = re.sub(rf" *{re.escape(HOOK)}\n", "", text)
    Project({**files, "src/wake_plain.c": without}).write(tmp_path / "p")
    (tmp_path / "p" / "src" / "string.h").write_text(
        "#include <stddef.h>\nvoid *memcpy(void *to, const void *from, size_t count);\n"
        "void *memmove(void *to, const void *from, size_t count);\n"
        "void *memset(void *to, int byte, size_t count);\n"
        "int memcmp(const void *a, const void *b, size_t count);\n"
    )
    gcc = compiler("arm-none-eabi-gcc")
    flags = ["-std=c11", "-mcpu=cortex-m4", "-O3", "-ffreestanding", f"-I{tmp_path}/p/src", "-c"]
    found = []
    for name in ("model", "plain"):
        made = tmp_path / f"{name}.o"
        run([gcc, *flags, tmp_path / "p" / "src" / f"wake_{name}.c", "-o", made])
        found.append(run(["arm-none-eabi-objdump", "-d", "-r", made]).split("\n", 3)[3])
    assert found[0] == found[1]
