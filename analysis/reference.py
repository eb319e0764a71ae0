"""Results worth keeping beside the code: packed records, and the findings that the README tells.

The records go into one zip with their plan. Unpacked into a results folder, they are a run that
ends where ours did: `run` goes on from there and trains nothing twice.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections import Counter
from pathlib import Path

from ablations.store.files import read_file, write_atomic
from ablations.store.results import Results
from ablations.store.schema import RecordError
from analysis import drawing, effects, figures, page, style
from analysis.claims import claims
from analysis.evidence import Evidence
from analysis.placing import placed
from analysis.report import PAGE
from analysis.sentences import plain
from analysis.tables.forms import escape
from analysis.verdicts import REFUTED, SUPPORTED, VERDICTS

RECORDS = "records.zip"
FINDINGS = "findings.md"
PICTURE = "overview"  # of the README: its panels abreast
DECIDED = (SUPPORTED, REFUTED)
MOST = 30 * 2**20  # bytes: more is no page beside the code any more
HEADLINES = (
    *("position.needed", "position.alibi-longer", "norm.post-needs-warmup", "heads.more-than-one"),
    *("scale.growth", "smoothing.likelihood", "recurrent.bottleneck", "recurrent.training-speed"),
    *("cost.memory", "train.residual"),
)
"""The claims that the README tells of, as far as they are decided: of each axis one or two."""


def publish(evidence: Evidence, to: Path) -> list[Path]:
    """Copy what a reader wants of a results folder whose report is written; what was written."""
    root = evidence.loaded.root
    if not (root / PAGE).is_file():
        raise RecordError(f"no report in {root}: python -m analysis report --results {root}")
    beside = [root / "claims.json", *sorted((root / "tables").iterdir()), root / "plan.json"]
    drawn = drawing.draw(placed(evidence), root)
    kept = [*beside, *(path for each in drawn for path in each.paths if path.suffix == ".pdf")]
    contents = {to / path.relative_to(root): read_file(path) for path in kept}
    contents[to / PAGE] = page.render(evidence, claims(evidence), drawn, beside, ["pdf"]).encode()
    contents[to / RECORDS] = packed(Results(root))
    contents[to / FINDINGS] = headlines(evidence).encode()
    size = sum(map(len, contents.values()))
    if size > MOST:
        raise RecordError(f"{size / 2**20:.0f} MiB are too many to keep: at most {MOST >> 20}")
    for name in ("tables", "figures", "report"):
        shutil.rmtree(to / name, ignore_errors=True)
    for path, content in contents.items():
        write_atomic(path, content)
    panels = figures.panels(PICTURE, evidence)
    picture = figures.compose(PICTURE, panels, columns=len(panels)) if panels else None
    return [*contents, *(style.save(picture, to / "figures", PICTURE) if picture else [])]


def packed(results: Results) -> bytes:
    """The plan and the records that it names in one zip; equal records give equal bytes."""
    plan = results.read_plan()
    cells = (cell for entry in plan["ablations"].values() for cell in entry["cells"])
    paths = [results.path(trial) for trial in sorted({cell["trial"] for cell in cells})]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in (results.plan_file, *(path for path in paths if path.is_file())):
            entry = zipfile.ZipInfo(path.relative_to(results.root).as_posix())
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(entry, read_file(path))
    return held.getvalue()


def unpack(reference: Path, to: Path) -> None:
    """Lay the records of a reference where a sweep would have written them."""
    with zipfile.ZipFile(reference / RECORDS) as file:
        file.extractall(to)


def headlines(evidence: Evidence) -> str:
    """As Markdown: how many claims came out how, and some of them with their number."""
    decided = claims(evidence)
    counts = Counter(claim["verdict"] for claim in decided)
    ids = len({claim["id"] for claim in decided})
    words = ", ".join(f"{counts[word]} {word}" for word in sorted(counts, key=VERDICTS.index))
    lines = [f"{ids} claims, {len(decided)} verdicts, each at its own task and size: {words}.", ""]
    lines += ["| claim | verdict | measured |", "|---|---|---|"]
    order = {name: place for place, name in enumerate(HEADLINES)}
    chosen = [each for each in decided if each["id"] in order and each["verdict"] in DECIDED]
    for claim in sorted(chosen, key=lambda each: order[each["id"]]):
        question = claim["scope"]["question"]
        metrics = evidence.loaded.ablations[question]["metrics"]
        measured = map(plain, effects.told({"evidence": claim["evidence"][:1]}, metrics))
        told = "; ".join([*measured, f"n = {claim['n']}"])
        cells = claim["statement"], f"{claim['verdict']} ({question})", told
        lines.append(f"| {' | '.join(map(escape, cells))} |")
    return "\n".join(lines) + "\n"
