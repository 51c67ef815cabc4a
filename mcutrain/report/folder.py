"""A report from what lies in a folder: report.json or a project, and what was added since."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcutrain_host.manifest import FILE

from mcutrain.errors import ReportError
from mcutrain.report.board_log import read_choices, read_log
from mcutrain.report.content import Report
from mcutrain.report.json_values import from_json, from_values, known, parse
from mcutrain.report.learning import Analysis, Chosen, ElasticChoices, LearningCurve, Profile
from mcutrain.report.project import manifest_of, read_project, read_text
from mcutrain.report.write import JSON
from mcutrain.selection.contribution import Contributions
from mcutrain.selection.result import Selection

LOG, ANALYSIS, SELECTION, SCHEME = "train.jsonl", "analysis.json", "selection.json", "scheme.toml"
PROFILE = "profile.json"


def read_folder(folder: Path) -> Report:
    """The report, with the log, analysis, selection, profile and scheme that lie beside it.

    Raises ReportError if there is none, or if a file is damaged.
    """
    report = _begin(folder)
    if (folder / LOG).is_file():
        report = _with_curve(report, read_log(folder / LOG))
        report = replace(report, choices=_choices(folder) or report.choices)
    if (folder / ANALYSIS).is_file():
        report = replace(report, analysis=read_analysis(folder / ANALYSIS))
    if (folder / SELECTION).is_file():
        path = folder / SELECTION
        report = replace(report, selection=chosen_of(parse(read_text(path), str(path)), str(path)))
    if (folder / PROFILE).is_file():
        report = replace(report, profile=read_profile(folder / PROFILE))
    if (folder / SCHEME).is_file() and not report.scheme_toml:
        report = replace(report, scheme_toml=read_text(folder / SCHEME))
    return report


def read_analysis(path: Path) -> Analysis:
    """Return what a report shows of an analysis.json. Raises ReportError."""
    values = parse(read_text(path), str(path))
    if not isinstance(values, dict) or "gains" not in values:
        raise ReportError(f"{path} is no analysis of `mcutrain analyze`: it has no gains")
    return analysis_of(values, str(path))


def read_profile(path: Path) -> Profile:
    """Return what a report shows of what `mcutrain profile -o` wrote. Raises ReportError."""
    values = parse(read_text(path), str(path))
    if not isinstance(values, dict) or "nodes" not in values:
        raise ReportError(f"{path} is no profile of `mcutrain profile -o`: it has no nodes")
    return from_values(Profile, known(Profile, values), str(path))


def analysis_of(values: Any, where: str = "analysis") -> Analysis:
    """Make an analysis of what Contributions.to_json has. Raises ReportError."""
    return from_values(Analysis, known(Analysis, values), where)


def chosen_of(values: Any, where: str = "selection") -> Chosen:
    """Make a choice of what mcutrain.selection.result.Selection.to_dict has. Raises ReportError."""
    return from_values(Chosen, known(Chosen, values), where)


def with_selection(report: Report, chosen: Selection, analysis: Contributions) -> Report:
    """The report with a selection and the analysis that it was made from."""
    return replace(
        report,
        selection=chosen_of(json.loads(json.dumps(chosen.to_dict()))),
        analysis=analysis_of(json.loads(analysis.to_json())),
    )


def _begin(folder: Path) -> Report:
    if not folder.is_dir():
        raise ReportError(f"there is no folder {folder}")
    if (folder / JSON).is_file():
        return from_json(Report, read_text(folder / JSON), str(folder / JSON))
    if (folder / "manifest.json").is_file():
        return read_project(folder)
    raise ReportError(
        f"{folder} holds neither a {JSON}, which `mcutrain demo`, `select` and `compare` write, "
        "nor a project of `mcutrain generate`"
    )


def _choices(folder: Path) -> ElasticChoices | None:
    """Read the log's choices if the run was elastic, with tensors in the project's order."""
    made = read_choices(folder / LOG)
    if not made:
        return None
    named = dict.fromkeys(name for one in made for name in (*one.importance, *one.tensors))
    if (folder / FILE).is_file():
        elastic = manifest_of(folder / FILE).elastic
        known_ones = () if elastic is None else elastic.tensors
        named = dict.fromkeys((*known_ones, *named))
    return ElasticChoices(tuple(named), made)


def _with_curve(report: Report, curve: LearningCurve | None) -> Report:
    """The report with the log's curve in the place of an earlier one of the same board."""
    if curve is None:
        return report
    others = tuple(c for c in report.curves if (c.name, c.unit) != (curve.name, curve.unit))
    return replace(report, curves=(*others, curve))
