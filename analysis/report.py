"""Figures, tables, verdicts and one page that has them all, written to a results folder."""

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
from analysis import environment, plots, tables, text
from analysis.claims import VERDICTS, claims, expected_errors, verdicts
from analysis.contrasts import Evidence
from analysis.load import UNREADABLE, WAITING, Loaded
from analysis.names import asked, safe
from analysis.sentences import CLOSE, OPEN, duration

PAGE = Path("report") / "index.html"
TEMPLATES = Path(__file__).parent / "templates"
ASIDE = ("parameters", "FLOPs/token", "tokens/s", "noise floor")  # columns only the files have
FIRST_SEED = 300  # reported seeds start here; lower ones were chosen under an earlier rule

SKEWED = (
    "A t-interval assumes symmetric noise. Tried with the truth on the edge of the prediction, "
    "where 5 % may be wrong: 3 to 6 % are wrong with symmetric noise, and 3 to 5 % with pairs of "
    "150 trained models that differ in their seed alone. Where a variant's noise is lognormal and "
    "its baseline's is small, 14 to 19 % are."
)
METHODS = (
    "A verdict is read off the 95 % interval that is shown: inside what was predicted, supported; "
    "outside, refuted; across its edge, undecided. Of several predictions, all supported: "
    "supported; all refuted: refuted; one of each: mixed; otherwise undecided.",
    "Seeds are fixed beforehand and judged once. Until they are complete, the page shows intervals "
    "and how many passes are done; a pass is one seed of everything.",
    "Scores: t-interval of the differences to the control, paired by seed, which counts seeds and "
    "test items. Success rates: exact interval of their paired difference; the rate of one side "
    "alone is shown and never judged. Times: t-interval of log ratios over processes, widened to "
    "the interval of the control timed against itself, and true of this machine.",
    "A seed that failed is counted and never averaged away: it leaves a claim about scores "
    "undecided.",
    SKEWED,
)
OLD_SEEDS = (
    "Some seeds here were drawn under an earlier rule of decision. Their verdicts are by today's "
    "rule on those old seeds; fresh seeds have not been run yet."
)


def write(evidence: Evidence, processes: int = 1) -> list[Path]:
    """Write all of it; the page comes last, so it is never ahead of what it links to."""
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


def figure_files(panel: Any, root: Path) -> list[Path]:
    """The files of a figure: a drawing for the page, one for papers, for the README a PNG."""
    forms = plots.KINDS[panel.kind].forms
    return [root / "figures" / f"{panel.name}.{form}" for form in forms]


def render(evidence: Evidence, panels: Sequence[Any]) -> str:
    """The page as text; its figures and tables are files beside it."""
    loaded = evidence.loaded
    done, planned = loaded.done()
    decided = claims(evidence)
    figures = [(panel.ablation, _figure(panel, loaded.root)) for panel in panels]
    views = tables.contrasts_views(evidence)
    sections = [
        _section(evidence, name, decided, views[name], [f for own, f in figures if own == name])
        for name in loaded.ablations
    ]
    is_old = any(isinstance(seed, int) and seed < FIRST_SEED for seed in loaded.cells["seed"])
    by_name = {section["name"]: section for section in sections}
    names = ("report.js", "report.css")
    script, look = ((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        undefined=jinja2.StrictUndefined, lstrip_blocks=True,
    )  # fmt: skip
    env.filters["set_apart"] = set_apart
    return env.get_template("report.html.j2").render(
        script=script,
        look=look,
        policy=policy(script, look),
        profile=loaded.plan.get("profile", ""),
        done=done,
        planned=planned,
        passes=passes(loaded),
        stale=len(loaded.stale),
        owed=int(loaded.cells.groupby("trial")["owed"].max().sum()),
        verdicts=VERDICTS,
        claims=[
            {**claim, "anchor": f"claim-{index + 1}", "section": by_name[_question(claim)]}
            for index, claim in enumerate(_with_texts(evidence, decided))
        ],
        errors=expected_errors(verdicts(loaded), evidence.contrasts),
        sections=sections,
        anchors={name: section["anchor"] for name, section in by_name.items()},
        overview=[figure for own, figure in figures if own is None],
        timed=[section for section in sections if len(section["tables"]) > 1],
        marks=tables.CAPTION,
        methods=[*METHODS, *([OLD_SEEDS] if is_old else [])],
        failures=environment.failures(loaded.cells),
        outcomes=environment.outcomes(loaded.cells),
        machines=environment.counted(loaded.records, environment.machine),
        versions=environment.counted(loaded.records, environment.code),
        data=environment.data(loaded.records),
        dates=environment.dates(loaded.records),
        seeds=", ".join(map(str, sorted(set(loaded.cells["seed"]), key=str))),
        spent=duration(environment.seconds(loaded.records)),
        files=[
            "../claims.json",
            "../plan.json",
            *(f"../tables/{path.name}" for path in sorted((loaded.root / "tables").iterdir())),
        ],
    )


def policy(script: str, look: str) -> str:
    """Its own script and its own look by their hashes, pictures beside it, and nothing else."""
    digests = [hashlib.sha256(source.encode()).digest() for source in (script, look)]
    own, looks = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {own}; style-src {looks}; "
        "img-src 'self' file:; base-uri 'none'; form-action 'none'"
    )


def set_apart(sentence: str) -> Markup:
    """A sentence whose marked names are code; whatever they hold is escaped first."""
    return Markup(str(escape(sentence)).replace(OPEN, "<code>").replace(CLOSE, "</code>"))


def passes(loaded: Loaded, ablation: str | None = None) -> tuple[int, int]:
    """How many passes are complete, and how many are planned: a pass is one seed of everything."""
    cells = loaded.cells
    cells = cells if ablation is None else cells[cells["ablation"] == ablation]
    rank = cells.groupby("ablation")["seed"].transform(lambda seeds: pd.factorize(seeds)[0])
    waiting = cells["outcome"].isin([WAITING, UNREADABLE]).groupby(rank).any()
    complete = waiting.sort_index().cummax()
    return int((~complete.astype(bool)).sum()), len(complete)


def _question(claim: Mapping[str, Any]) -> str:
    return str(claim["scope"]["question"])


def _with_texts(evidence: Evidence, decided: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each claim with its findings in words."""
    entries = evidence.loaded.ablations
    return [
        {**claim, "texts": list(dict.fromkeys(text.finding_text(each, metrics) for each in found))}
        for claim in decided
        for found, metrics in [(claim["findings"], entries[_question(claim)]["metrics"])]
    ]


def _figure(panel: Any, root: Path) -> dict[str, Any]:
    """A figure as the page shows it."""
    files = [f"../{path.relative_to(root).as_posix()}" for path in figure_files(panel, root)]
    caption = plots.KINDS[panel.kind].caption
    return {"alt": panel.alt, "caption": caption, "files": files}


def _section(
    evidence: Evidence,
    name: str,
    decided: Sequence[Mapping[str, Any]],
    view: pd.DataFrame,
    figures: list[dict[str, Any]],
) -> dict[str, Any]:
    """All that the page shows of one question."""
    entry = evidence.loaded.ablations[name]
    done, planned = evidence.loaded.done(name)
    own = [claim for claim in decided if _question(claim) == name]
    speeds = evidence.speeds[evidence.speeds["ablation"] == name]
    timed = tables.speed_view(tables.singles(evidence).query("ablation == @name"))
    compared = (evidence.contrasts[evidence.contrasts["ablation"] == name]["n"] > 0).any()
    is_bare = done == planned and not compared  # all was run, and there is nothing to compare
    shown = {"": narrowed(view.iloc[:0] if is_bare else view)}
    if len(timed):
        shown["Times"] = narrowed(timed.drop(columns="ablation"))
    if len(speeds):
        shown |= tables.curve_views(evidence, name)
    words = ["python", "-m", "ablations", "run", entry["name"], "--profile", entry["profile"]]
    words += [*entry["overrides"], *(["--tune"] if entry["arms"] == "tuned" else [])]
    return {
        "name": name,
        "anchor": f"q-{safe(name)}",
        "entry": entry,
        "question": asked(entry),
        "passes": passes(evidence.loaded, name),
        "done": done,
        "planned": planned,
        "answer": text.answer(evidence, name),
        "claims": _with_texts(evidence, own),
        "verdicts": [word for word in VERDICTS if word in {claim["verdict"] for claim in own}],
        "figures": figures,
        "tables": shown,
        "examples": text.examples(evidence, name),
        "limits": text.limits(evidence, name),
        "command": shlex.join(map(str, words)),
    }


def narrowed(view: pd.DataFrame) -> pd.DataFrame:
    """A table for the page: without the columns that only files have, and without empty ones."""
    kept = [name for name in view if name not in ASIDE and (view[name] != "").any()]
    return view[kept]
