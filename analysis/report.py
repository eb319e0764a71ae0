"""One page that answers the questions, shows the evidence and admits what failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from ablations.store.files import write_atomic
from analysis import environment, figures, projection, stats, style, tables
from analysis.claims import claims
from analysis.evidence import Evidence
from analysis.load import WAITING, listed
from analysis.names import asked, cell_name, short
from analysis.sentences import answers


def write(evidence: Evidence) -> list[Path]:
    """Write figures, tables and the page; the page comes last, so it is never ahead of them."""
    folder = evidence.loaded.root / "figures"
    paths, shown = [], []
    for name in figures.names():
        frames = figures.panels(name, evidence)
        if not frames:
            continue
        figure = figures.compose(name, frames)
        alt = figures.describe(name, frames)
        saved = style.save(figure, folder, name)
        paths += saved
        drawing = style.inline(saved[0].read_text(encoding="utf-8"), name, alt)
        shown.append({"name": name, "svg": drawing, "caption": figures.caption(name)})
    paths += tables.write(evidence)
    listed_claims = evidence.loaded.root / "claims.json"
    decided = claims(evidence)
    document = json.dumps(decided, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(listed_claims, document + "\n")
    paths.append(listed_claims)
    page = evidence.loaded.root / "report" / "index.html"
    write_atomic(page, render(evidence, shown, decided))
    return [*paths, page]


def render(evidence: Evidence, shown: list[dict[str, Any]], decided: list[dict[str, Any]]) -> str:
    """The page as text."""
    loaded = evidence.loaded
    done, planned = loaded.done()
    machines = environment.machines(loaded.records)
    return _template().render(
        profile=loaded.plan.get("profile", ""),
        done=done,
        stale=len(loaded.stale),
        planned=planned,
        owed=int(loaded.cells.drop_duplicates("trial")["owed"].sum()),
        answers=answers(evidence, decided),
        figures=shown,
        questions=_questions(evidence, decided),
        speeds=tables.speed_view(tables.singles(evidence)),
        curves=tables.curve_views(evidence),
        noisy=sorted(set(evidence.speeds.loc[evidence.speeds["noisy"] == True, "ablation"])),  # noqa: E712
        projected=_projected(evidence),
        failures=_failures(loaded.cells),
        machines=machines,
        versions=environment.versions(loaded.records),
        dates=_dates(evidence),
        chance=_chance(evidence),
        claims=decided,
    )


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


def _chance(evidence: Evidence) -> stats.FalseVerdicts:
    """How many questions chance alone may have answered wrongly; tables of one are one question."""
    tables = evidence.loaded.ablations.values()
    asked = {(e["name"], *e["overrides"], e["profile"]) for e in tables if e["claims"]}
    return stats.false_verdicts([stats.ALPHA] * len(asked))


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis", "templates")
    env = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return env.get_template("report.html.j2")


def _questions(evidence: Evidence, decided: list[dict[str, Any]]) -> list[dict[str, Any]]:
    views = tables.contrasts_views(evidence)
    found = []
    for index, (name, ablation) in enumerate(evidence.loaded.ablations.items()):
        done, planned = evidence.loaded.done(name)
        found.append(
            {
                "anchor": f"q{index + 1}",
                "name": name,
                "question": asked(ablation),
                "task": ablation["task"],
                "control": ablation["control"],
                "metric": ablation["metric"],
                "fixed": ablation.get("fixed") or "",
                "moves": ablation.get("moves") or "",
                "overrides": ablation.get("overrides") or [],
                "seeds": ablation.get("seeds") or [],
                "claims": [claim for claim in decided if claim["scope"]["question"] == name],
                "done": done,
                "planned": planned,
                "table": views[name],
                "own": _own_figure(evidence, name, index),
            }
        )
    return found


def _own_figure(evidence: Evidence, name: str, index: int) -> str | None:
    """A forest of this question alone, where the overview squeezes it beside others."""
    crowded = False
    for panel in figures.panels("forest", evidence):
        members = set(panel["ablation"])
        crowded |= name in members and len(members) > 1
    if not crowded:
        return None
    frame = evidence.contrasts
    alone = Evidence(evidence.loaded, frame[frame["ablation"] == name], evidence.speeds)
    frames = figures.panels("forest", alone)
    if not frames:
        return None
    figure = figures.compose("forest", frames)
    alt = figures.describe("forest", frames)
    return style.inline(style.svg(figure), f"own{index + 1}", alt)


def _failures(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Every trial that did not end well, once, with the last line of its reason."""
    bad = cells[~cells["outcome"].isin(["ok", WAITING])]
    where = bad.groupby("trial", sort=False)["ablation"].agg(
        lambda names: ", ".join(dict.fromkeys(names))
    )
    found = []
    for row in listed(bad.drop_duplicates("trial")):
        reason = row["reason"] if isinstance(row["reason"], str) else ""
        lines = [line for line in reason.splitlines() if line.strip()]
        found.append(
            {
                "where": where[row["trial"]],
                "label": short(cell_name(row["label"], row["across"])),
                "seed": row["seed"],
                "trial": row["trial"],
                "outcome": row["outcome"],
                "reason": lines[-1].strip()[:300] if lines else "no reason recorded",
            }
        )
    return found


def _dates(evidence: Evidence) -> tuple[str, str] | None:
    started = sorted(
        str(record.env["started"])[:40]
        for record in evidence.loaded.records.values()
        if record.env.get("started")
    )
    return (started[0], started[-1]) if started else None
