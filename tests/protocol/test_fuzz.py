"""The frame parser and the commands under libFuzzer with ASan and UBSan, from a kept corpus.

corpus.zip holds one input a file; their names mean nothing. `make stress` fuzzes for ten minutes;
MCUTRAIN_FUZZ_SECONDS chooses another time, for all three devices together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile

import pytest

from tests.protocol.device import HERE, compile_c

SANITIZE = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")
IMPRINTING = "-DMCT_IMPRINT_FEATURES=4"
ALL_COMMANDS = ("-DMCT_FORWARD_TIME=1u", "-DMCT_TIMED_NODES=200", IMPRINTING)
"""The device that chooses what it trains, times its nodes, more than a body holds, and imprints."""
RESAMPLING = ("-DMCT_FORWARD_TIME=1u", "-DMCT_BACKING_BYTES=0u")
"""The device that trains other columns, and knows no WRITE_STATE."""
POSITIONS = ("-DMCT_FORWARD_TIME=1u", "-DMCT_LABEL_BYTES=9u")
"""The device that learns a class for each position."""
SECONDS = int(os.environ.get("MCUTRAIN_FUZZ_SECONDS", "6")) // 3
"""Of each device."""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize(
    "commands", [ALL_COMMANDS, RESAMPLING, POSITIONS], ids=["all", "resampling", "positions"]
)
def test_no_input_makes_the_device_misbehave(tmp_path, commands):
    if shutil.which("clang") is None:
        pytest.skip("no clang with libFuzzer: apt install clang libclang-rt-dev")
    program = tmp_path / "fuzz"
    trial = tmp_path / "trial.c"
    trial.write_text(
        "int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void){return 0;}"
    )
    links = subprocess.run(
        ["clang", *SANITIZE, str(trial), "-o", str(program)], capture_output=True
    )
    if links.returncode != 0:
        pytest.skip("clang cannot link libFuzzer here: apt install libclang-rt-dev")
    compile_c(("clang",), program, str(HERE / "fuzz_protocol.c"), *SANITIZE, *commands)
    found, kept = tmp_path / "found", tmp_path / "kept"
    found.mkdir()
    with zipfile.ZipFile(HERE / "corpus.zip") as corpus:
        corpus.extractall(kept)
    done = subprocess.run(
        [
            str(program),
            f"-max_total_time={SECONDS}",
            "-max_len=4096",
            "-timeout=20",
            "-print_final_stats=1",
            f"-artifact_prefix={tmp_path}/",
            str(found),
            str(kept),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
    assert f"seed corpus: files: {len(list(kept.iterdir()))} " in done.stderr
