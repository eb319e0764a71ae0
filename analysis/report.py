"""Write figures, tables, verdicts and the page to a results folder."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from ablations.store.files import write_atomic
from ablations.store.words import AXES, CHAPTERS
from analysis import chapters, plots, provenance, tables
from analysis.claims import VERDICTS, claims, expected_errors, finding_text, verdict_counts
from analysis.contrasts import Evidence
from analysis.load import Row
from analysis.plots import Panel
from analysis.wording import CLOSE, OPEN, duration, joined, named, safe, short

PAGE = Path("report") / "index.html"
TEMPLATES = Path(__file__).parent / "templates"
ONLY_IN_FILES = ("parameters", "FLOPs/token", "tokens/s", "noise floor")  # columns
FIRST_SEED = 300  # reported seeds start here; lower ones were chosen under an earlier rule


def write(evidence: Evidence, processes: int = 1) -> list[Path]:
    """Write everything; the page is last, so that every file it links to exists."""
    root = evidence.loaded.root
    panels = plots.panels(evidence)
    plots.save_all(panels, root / "figures", processes)
    decided = claims(evidence)
    document = json.dumps(decided, indent=1, ensure_ascii=False, allow_nan=False)
    written = [*tables.write(evidence), root / "claims.json"]
    write_atomic(root / "claims.json", document + "\n")
    write_atomic(root / PAGE, render(evidence, panels))
    figures = [path for panel in panels for path in figure_files(panel, root)]
    return [*figures, *written, root / PAGE]


def figure_files(panel: Panel, root: Path) -> list[Path]:
    """The files of a figure."""
    return [root / "figures" / f"{panel.name}.{form}" for form in plots.forms(panel.kind)]


def render(evidence: Evidence, panels: Sequence[Panel]) -> str:
    """The HTML of the page; its figures are files beside it."""
    loaded = evidence.loaded
    decided = claims(evidence)
    shown = _chapters(evidence, decided, panels)
    sections = [section for chapter in shown for section in chapter["sections"]]
    is_old = any(isinstance(seed, int) and seed < FIRST_SEED for seed in loaded.trials["seed"])
    script, look = (
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "report.css")
    )
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        undefined=jinja2.StrictUndefined, lstrip_blocks=True,
    )  # fmt: skip
    env.filters |= {"set_apart": set_apart, "joined": joined, "named": named, "short": short}
    records = loaded.records.values()
    seconds = [record.env.get("seconds") or 0.0 for record in records]
    outcomes = loaded.trials.drop_duplicates("trial")["outcome"].value_counts()
    return env.get_template("report.html.j2").render(
        script=script,
        look=look,
        policy=policy(script, look),
        loaded=loaded,
        missing=int(loaded.trials.groupby("trial")["missing"].max().sum()),
        verdicts=VERDICTS,
        claims=decided,
        errors=expected_errors(decided, evidence.contrasts),
        chapters=shown,
        sections=sections,
        anchors={section["name"]: section["anchor"] for section in sections},
        overview=[_figure(each, loaded.root) for each in panels if each.experiment is None],
        timed=[section for section in sections if len(section["tables"]) > 1],
        marks=tables.CAPTION,
        is_old=is_old,
        counts=verdict_counts(decided),
        failures=provenance.failures(loaded.trials),
        outcomes=list(outcomes.items()),
        machines=provenance.counted(records, provenance.machine),
        versions=provenance.counted(records, provenance.code),
        data=provenance.data(records),
        dates=provenance.dates(records),
        seeds=", ".join(map(str, sorted(set(loaded.trials["seed"]), key=str))),
        spent=duration(sum(seconds)),
        files=[
            "../claims.json",
            "../plan.json",
            *(f"../tables/{path.name}" for path in sorted((loaded.root / "tables").iterdir())),
        ],
    )


def policy(script: str, look: str) -> str:
    """A content security policy: the page's own script and style by hash, and local images."""
    digests = [hashlib.sha256(source.encode()).digest() for source in (script, look)]
    own, looks = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {own}; style-src {looks}; "
        "img-src 'self' file:; base-uri 'none'; form-action 'none'"
    )


def set_apart(sentence: str) -> Markup:
    """Escape a sentence and set its marked names as code."""
    return Markup(str(escape(sentence)).replace(OPEN, "<code>").replace(CLOSE, "</code>"))


def _chapters(evidence: Evidence, decided: Sequence[Row], panels: Sequence[Panel]) -> list[Row]:
    """The content of each chapter."""
    views, found = tables.contrasts_views(evidence), []
    for chapter, names in chapters.by_chapter(evidence.loaded).items():
        sections, own = [], []
        for name in names:
            entry = evidence.loaded.experiments[name]
            figures = [_figure(each, evidence.loaded.root) for each in panels
                       if each.experiment == name]  # fmt: skip
            mine = [
                _claim(claim, number, entry)
                for number, claim in enumerate(decided, start=1)
                if claim["scope"]["experiment"] == name
            ]
            section = _section(evidence, name, mine, views[name], figures)
            sections.append({**section, "short": name.removeprefix(f"{chapter}/")})
            own += [{**claim, "section": section} for claim in mine]
        wide = chapters.wide_table(evidence, names) if chapter in AXES else pd.DataFrame()
        found.append(
            {
                "title": CHAPTERS.get(chapter, "Other experiments"),
                "anchor": f"chapter-{chapter or 'other'}",
                "passes": evidence.loaded.passes(names),
                **{"sections": sections, "claims": own, "wide": wide},
            }
        )
    return found


def _claim(claim: Row, number: int, entry: Mapping[str, Any]) -> Row:
    """A claim with its findings in words; a pass is shown while planned seeds are missing."""
    texts = [finding_text(each, entry["metrics"]) for each in claim["findings"]]
    shown = claim["reason"] if claim["reason"].startswith("pass ") else claim["verdict"]
    unique = list(dict.fromkeys(texts))
    return {**claim, "anchor": f"claim-{number}", "texts": unique, "shown": shown}


def _figure(panel: Panel, root: Path) -> Row:
    """The kind, the files and the alternative text of a figure."""
    files = [f"../{path.relative_to(root).as_posix()}" for path in figure_files(panel, root)]
    return {"alt": panel.alt, "kind": panel.kind, "files": files}


def _section(
    evidence: Evidence, name: str, own: list[Row], view: pd.DataFrame, figures: list[Row]
) -> Row:
    """The content of one experiment."""
    entry = evidence.loaded.experiments[name]
    done, planned = evidence.loaded.done(name)
    timed = tables.speed_view(tables.singles(evidence).query("experiment == @name"))
    compared = (evidence.contrasts[evidence.contrasts["experiment"] == name]["n"] > 0).any()
    is_bare = done == planned and not compared  # everything has run and there is nothing to compare
    shown = {"": narrowed(view.iloc[:0] if is_bare else view)}
    if len(timed):
        shown["Times"] = narrowed(timed.drop(columns="experiment"))
    if (evidence.speeds["experiment"] == name).any():
        shown |= tables.curve_views(evidence, name)
    words = ["ablations", "run", entry["name"], "--profile", entry["profile"]]
    words += entry["overrides"]
    return {
        "name": name,
        "anchor": f"experiment-{safe(name)}",
        "entry": entry,
        "passes": evidence.loaded.passes([name]),
        "done": done,
        "planned": planned,
        "answer": chapters.answer(evidence, name),
        "claims": own,
        "verdicts": [word for word in VERDICTS if word in {claim["verdict"] for claim in own}],
        "figures": figures,
        "tables": shown,
        "examples": chapters.examples(evidence, name),
        "scope": chapters.scope(evidence, name),
        "command": shlex.join(map(str, words)),
    }


def narrowed(view: pd.DataFrame) -> pd.DataFrame:
    """A table without empty columns and without those that are only in files."""
    kept = [name for name in view if name not in ONLY_IN_FILES and (view[name] != "").any()]
    return view[kept]
