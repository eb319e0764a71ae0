"""The page itself: what the template is given, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from analysis import environment, figures, projection, provenance, stats, style, tables
from analysis.drawing import Drawn
from analysis.effects import findings, told
from analysis.evidence import Evidence
from analysis.inline import alphabet, inline
from analysis.names import safe
from analysis.sections import Section, downloads, sections
from analysis.sentences import CLOSE, OPEN
from analysis.verdicts import VERDICTS

TALL = 24.0  # inches: a figure that is folded away at first
TEMPLATES = Path(__file__).parent / "templates"


def render(
    evidence: Evidence,
    decided: Sequence[dict[str, Any]],
    drawn: Sequence[Drawn],
    written: Sequence[Path],
    kinds: Collection[str] = style.KINDS,
) -> str:
    """The page as text; `written` are the files beside it, and of figures those of these kinds."""
    loaded = evidence.loaded
    done, planned = loaded.done()
    letters: dict[str, str] = {}
    asked = sections(evidence, decided, drawn)
    script, look = (_source(name) for name in ("report.js", "report.css"))
    shown = {each.placed.stem: _shown(each, loaded.root, letters, kinds) for each in drawn}
    return _template().render(
        script=script,
        look=look,
        policy=policy(script, look),
        profile=loaded.plan.get("profile", ""),
        done=done,
        planned=planned,
        stale=len(loaded.stale),
        owed=int(loaded.cells.groupby("trial")["owed"].max().sum()),
        verdicts=VERDICTS,
        claims=_claims(decided, asked),
        findings=_findings(decided, asked),
        chance=_chance(evidence),
        sections=asked,
        anchors={each.name: each.anchor for each in asked},
        shown=shown,
        marks=tables.CAPTION,
        overview=[each.placed.stem for each in drawn if each.placed.question is None],
        letters=alphabet(letters),
        timed=[each for each in asked if len(each.tables) > 1],
        projected=_projected(evidence),
        failures=provenance.failures(loaded.cells),
        outcomes=provenance.outcomes(loaded.cells),
        machines=environment.machines(loaded.records),
        versions=environment.versions(loaded.records),
        data=provenance.data(loaded.records),
        dates=provenance.dates(loaded.records),
        seeds=provenance.seeds(evidence),
        spent=provenance.duration(provenance.seconds(loaded.records)),
        files=downloads(written, loaded.root),
    )


def policy(script: str, look: str) -> str:
    """Its own script and its own look by their hashes; pictures inside drawings; nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(look)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _template() -> jinja2.Template:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["set_apart"] = set_apart
    env.tests["is_csv"] = lambda path: path.endswith(".csv")
    return env.get_template("report.html.j2")


def set_apart(text: str) -> Markup:
    """A sentence whose marked names are code; whatever they hold is escaped first."""
    return Markup(str(escape(text)).replace(OPEN, "<code>").replace(CLOSE, "</code>"))


def _shown(
    each: Drawn, root: Path, letters: dict[str, str], kinds: Collection[str]
) -> dict[str, Any]:
    """A figure as the page has it: drawing, caption, files."""
    module = figures.find(each.placed.figure)
    alt = module.describe(each.placed.frames)
    text = each.paths[0].read_text(encoding="utf-8")
    return {
        "name": each.placed.figure,
        "id": f"figure-{each.placed.stem.replace('/', '-')}",
        "svg": Markup(inline(text, f"f-{safe(each.placed.stem)}", alt, letters)),
        "caption": module.CAPTION,
        "files": downloads([path for path in each.paths if path.suffix[1:] in kinds], root),
        "panels": len(each.placed.frames),
        "is_tall": sum(map(module.inches, each.placed.frames)) > TALL,
    }


def _claims(decided: Sequence[dict[str, Any]], asked: Sequence[Section]) -> list[dict[str, Any]]:
    """Rows of the claims' table: each with its question's anchor and its first effect."""
    known = {each.name: each for each in asked}
    found = []
    for index, claim in enumerate(decided):
        section = known[claim["scope"]["question"]]
        first = told({"evidence": claim["evidence"][:1]}, section.entry["metrics"])
        found.append(
            {
                **claim,
                "anchor": f"claim-{index + 1}",
                "section": section,
                "told": "".join(first),
                "more": len(claim["evidence"]) - 1 if first else 0,
            }
        )
    return found


def _findings(decided: Sequence[dict[str, Any]], asked: Sequence[Section]) -> list[dict[str, Any]]:
    known = {each.name: each for each in asked}
    found = []
    for finding in findings(decided):
        section = known[finding["claim"]["scope"]["question"]]
        (text,) = told({"evidence": [finding["each"]]}, section.entry["metrics"])
        found.append({**finding, "section": section, "told": text})
    return found


def _chance(evidence: Evidence) -> stats.FalseVerdicts:
    """How many questions chance alone may have answered wrongly; tables of one are one question."""
    tables = evidence.loaded.ablations.values()
    asked = {(e["name"], *e["overrides"], e["profile"]) for e in tables if e["claims"]}
    return stats.false_verdicts([stats.ALPHA] * len(asked))


def _projected(evidence: Evidence) -> dict[str, Any] | None:
    """What the formula of costs says of other devices, and how far it is off here."""
    found = projection.projection(evidence)
    if found is None:
        return None
    first = found.rows.iloc[0]
    return {
        "table": projection.view(found),
        "error": found.error,
        "is_good": found.is_good,
        "fitted": found.fitted,
        "held_back": found.held_back,
        "of": first["of"],
        "than": first["than"],
        "width": first["width"],
        "sources": [device.source for device in projection.ACCELERATORS],
    }
