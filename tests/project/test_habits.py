"""What the project promises about itself: versions, changes, the checks of a commit."""

import re
from pathlib import Path

import pytest
from mcutrain_host import manifest, protocol, saved

import mcutrain
from mcutrain.proxies import folder
from mcutrain.selection import contribution

REPOSITORY = Path(__file__).resolve().parents[2]
TWO_PAGES = 1000
"""Words."""


def define(header: str, name: str) -> int:
    text = (REPOSITORY / "firmware" / header).read_text(encoding="utf-8")
    found = re.search(rf"#define {name} (\d+)u?\b", text)
    assert found is not None
    return int(found[1])


VERSIONS = {
    "names in `mcutrain.__all__`": mcutrain.__version__,
    "the command line": mcutrain.__version__,
    "the C of a project": define("runtime/mct_types.h", "MCT_VERSION"),
    "the serial protocol": define("protocol/mct_protocol.h", "MCT_PROTOCOL_VERSION"),
    "saved states": define("runtime/mct_state.h", "MCT_STATE_VERSION"),
    "recipes behind a saved state": saved.RECIPE_VERSION,
    "`manifest.json` of a project": manifest.FORMAT,
    "`analysis.json`": contribution.FORMAT,
    "a folder of proxies": folder.FORMAT,
}


@pytest.mark.parametrize(("what", "version"), VERSIONS.items())
def test_the_promise_names_the_versions_of_today(what: str, version: object) -> None:
    page = (REPOSITORY / "docs" / "stability.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {what}"))
    cell = row.split("|")[3].strip()
    assert cell.endswith(f" {version}")


def test_host_and_firmware_speak_one_protocol_and_one_state() -> None:
    assert VERSIONS["the serial protocol"] == protocol.VERSION
    assert VERSIONS["saved states"] == saved.VERSION


def sections() -> dict[str, str]:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## \[(.+?)\].*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_changelog_has_the_version_that_is_here_and_room_for_the_next() -> None:
    found = sections()
    assert next(iter(found)) == "Unreleased"
    assert mcutrain.__version__ in found
    assert {"### Added", "### Changed"} <= set(found["Unreleased"].splitlines())


def test_a_release_is_told_on_two_pages() -> None:
    lengths = {version: len(text.split()) for version, text in sections().items()}
    released = {version: words for version, words in lengths.items() if version != "Unreleased"}
    assert released
    assert max(released.values()) <= TWO_PAGES


def test_a_commit_is_checked_by_what_make_check_runs() -> None:
    yaml = pytest.importorskip("yaml", reason="comes with mkdocs: pip install 'mcutrain[docs]'")
    text = (REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hooks = [hook["entry"] for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"]]
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    check = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    tools = set(re.findall(r"\.venv/bin/([a-z-]+)", check)) | {"mypy"}
    assert {hook.split()[0].removeprefix(".venv/bin/") for hook in hooks} == tools
    for hook in hooks:
        assert hook in makefile
