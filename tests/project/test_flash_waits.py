"""benchmarks/qemu_flash.c: what a chip's caches make of code and data that its core reads."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mcutrain_host.toolchain import find_host_compiler

from mcutrain import demo, prepare

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "benchmarks/qemu_flash.c"
DRIVER = f"""
#include "{PLUGIN}"
/* QEMU's side, of which only the size of an access is asked. */
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*f)(uint64_t, struct qemu_plugin_tb *)) {{
    (void)id, (void)f;
}}
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *i,
                                            void (*f)(unsigned, void *), int flags, void *data) {{
    (void)i, (void)f, (void)flags, (void)data;
}}
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *i,
                                      void (*f)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *),
                                      int flags, int accesses, void *data) {{
    (void)i, (void)f, (void)flags, (void)accesses, (void)data;
}}
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info) {{ return info; }}
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) {{ (void)tb; return 0; }}
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i) {{
    (void)tb, (void)i; return NULL;
}}
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *i) {{ (void)i; return 0; }}
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *i) {{ (void)i; return 0; }}

void begin(const char *chips_file, const char *ranges_file) {{
    FILE *file = fopen(chips_file, "r");
    read_chips(file);
    fclose(file);
    file = fopen(ranges_file, "r");
    read_ranges(file);
    fclose(file);
}}
/* Instructions of 4 bytes, two of them in a word of 8. */
void run(uint64_t address, unsigned words) {{
    for (unsigned i = 0; i < words; i++) {{
        fetch f = {{.first = address + 8 * i, .last = address + 8 * i + 7, .instructions = 2}};
        place(&f);
        execute(0, &f);
    }}
}}
void load(uint64_t address) {{ access_memory(0, 2, address, NULL); }}
uint64_t waits(int of_data) {{ return (of_data ? chips->data_waits : chips->code_waits) / CYCLE; }}
"""
MODEL, OUTSIDE, DATA, RAM = 0x1000, 0x8000, 0x4000, 0x20000000


@pytest.fixture(scope="module")
def chip_flash() -> Iterator[ModuleType]:
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        yield importlib.import_module("chip_flash")
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))


@pytest.fixture
def loaded(tmp_path: Path, chip_flash: ModuleType) -> Callable[..., ctypes.CDLL]:
    """The plugin with one chip, in its function of the model."""

    def load(board: str) -> ctypes.CDLL:
        source, library = tmp_path / "driver.c", tmp_path / f"{board}.so"
        source.write_text(DRIVER)
        command = [*find_host_compiler(), "-O2", "-shared", "-fPIC", str(source), "-o"]
        subprocess.run([*command, str(library)], check=True, capture_output=True)
        known = {c.board: c for chips in chip_flash.CHIPS.values() for c in chips}
        known[chip_flash.ESP32_C3.board] = chip_flash.ESP32_C3
        (tmp_path / "chips").write_text(f"0 10000 {RAM:x}\n{known[board].line()}\n")
        (tmp_path / "ranges").write_text(
            f"{MODEL:x} {DATA:x} 1 mct_infer\n{OUTSIDE:x} 9000 0 main\n"
        )
        made = ctypes.CDLL(str(library))
        for name in ("load", "run"):
            getattr(made, name).argtypes = [ctypes.c_uint64, ctypes.c_uint][: 1 + (name == "run")]
        made.waits.restype = ctypes.c_uint64
        made.begin(str(tmp_path / "chips").encode(), str(tmp_path / "ranges").encode())
        made.run(OUTSIDE, 1)
        made.run(MODEL, 1)
        return made

    return load


def waited(library: ctypes.CDLL, of_data: bool, act: Callable[[], None]) -> int:
    before = library.waits(int(of_data))
    act()
    return int(library.waits(int(of_data)) - before)


def test_what_is_outside_of_the_model_costs_nothing(loaded) -> None:
    library = loaded("nucleo-f446re")
    assert library.waits(0) == 5  # the first line
    assert library.waits(1) == 0


def test_straight_code_is_read_ahead(loaded) -> None:
    """A line of four instructions takes 6 cycles to execute, and as long to be read."""
    library = loaded("nucleo-f446re")
    assert waited(library, False, lambda: library.run(MODEL + 8, 100)) == 0


def test_a_loop_waits_only_at_lines_that_were_read_ahead_too_late(loaded) -> None:
    """A jump to the next line but one misses once; then its line is kept."""
    library = loaded("nucleo-f446re")

    def jump() -> None:
        library.run(MODEL, 2)
        library.run(MODEL + 0x100, 2)

    first = waited(library, False, jump)
    assert first >= 5
    jump()
    again = waited(library, False, jump)
    assert again == 0


def test_the_data_cache_of_an_f446_has_eight_lines(loaded) -> None:
    library = loaded("nucleo-f446re")

    def read(lines: int) -> None:
        for line in range(lines):
            for word in range(4):
                library.load(DATA + 16 * line + 4 * word)

    read(8)
    assert waited(library, True, lambda: read(8)) == 0
    read(9)
    assert waited(library, True, lambda: read(9)) == 9 * 5
    assert waited(library, True, lambda: library.load(RAM)) == 0


def test_each_read_of_data_waits_on_an_f303(loaded) -> None:
    library = loaded("nucleo-f303re")
    library.load(DATA)
    assert waited(library, True, lambda: [library.load(DATA) for _ in range(7)]) == 7 * 2


def test_ram_takes_lines_of_an_m7s_data_cache(loaded) -> None:
    """Four ways: a line of flash stays through three lines of RAM of its set, not through four."""
    library = loaded("stm32f746g-disco")
    way = 1024

    def beside(lines: int) -> None:
        for line in range(lines):
            library.load(RAM + 0x10000 + way * line)

    library.load(DATA)
    beside(3)
    assert waited(library, True, lambda: library.load(DATA)) == 0
    beside(4)
    assert waited(library, True, lambda: library.load(DATA)) == 11
    library.load(RAM)  # memory beside the core
    assert waited(library, True, lambda: library.load(DATA)) == 0


def test_code_and_data_of_an_rp2350_share_a_cache(loaded) -> None:
    library = loaded("rpi-pico-2")
    library.load(DATA)
    assert waited(library, True, lambda: library.load(DATA + 4)) == 0
    assert waited(library, False, lambda: library.run(MODEL + 8, 1)) == 72
    library.load(MODEL + 0x2000)
    library.load(MODEL + 0x4000)
    assert waited(library, False, lambda: library.run(MODEL, 1)) == 72


def test_an_esp32_c3_keeps_eight_lines_of_a_set_for_code_and_data(loaded) -> None:
    """Of 32 bytes, each 304 cycles away; every 2 KB there is a line of the same set."""
    library = loaded("esp32-c3-devkit")
    lines = [DATA + 2048 * i for i in range(8)]
    assert library.waits(0) == 304  # the first line of code

    def read(addresses: list[int]) -> Callable[[], None]:
        return lambda: [library.load(address) for address in addresses] and None

    assert waited(library, True, read(lines[:7])) == 7 * 304
    assert waited(library, True, read([line + 31 - 3 for line in lines[:7]])) == 0
    assert waited(library, True, read([MODEL])) == 0  # code's line, of the same set and cache
    assert waited(library, True, read(lines[7:])) == 304
    assert waited(library, True, read(lines[:1])) == 304  # it was the one used longest ago


def test_weights_that_a_step_reads_count_once_for_each_node(chip_flash: ModuleType) -> None:
    waits = importlib.import_module("flash_waits")
    step = prepare(demo.network(), "head")
    graph = step.plan.training.graph
    constants = set(graph.constants())
    read = [name for node in graph.nodes for name in node.inputs if name in constants]
    assert len(read) == len(set(read))  # no gradient goes through a frozen layer
    total = sum(graph.tensors[name].type.size_bytes for name in read)
    assert waits.weights_read(step) == total > 0
