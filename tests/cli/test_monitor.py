"""`mcutrain monitor` where there is no terminal: lines, until it is ended."""

from __future__ import annotations

import re
import subprocess
import time
from types import SimpleNamespace

import pytest

from mcutrain.cli import monitor
from tests.cli.conftest import MCUTRAIN, Run
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_tcp


def test_without_a_terminal_every_answer_is_a_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter((1, 1, 0))

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        if not next(waits):
            raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=sleep, strftime=time.strftime)
    monkeypatch.setattr(monitor, "time", clock)
    with on_tcp(FakeDevice().receive) as url:
        outcome = run("monitor", "--port", url, "--every", 0.5)
    assert outcome.code == 0
    *table, first, second, third = outcome.out.splitlines()
    assert any(line.split()[:2] == ["samples", "learnt"] for line in table)
    lines = first, second, third
    for line in lines:
        assert re.fullmatch(
            r"\d\d:\d\d:\d\d  0 samples learnt, loss 0\.0000, .*\d+ frames, 0 damaged", line
        ), line
    assert len(set(lines)) == 3
    assert outcome.err.splitlines()[-1] == "mcutrain: no longer watching"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_it_ends_without_a_word_when_nobody_reads(flags: tuple[str, ...]) -> None:
    pipe = subprocess.PIPE
    with on_tcp(FakeDevice().receive) as url:
        command = [*MCUTRAIN, "monitor", "--port", url, "--every", "0.1", *flags]
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait(60) == 1
