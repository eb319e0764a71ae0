"""Copy results into a folder to be committed: packed records, tables, figures and the page.

The records and their plan go into one zip. Unpacked into a results folder they are a finished run,
which `run` continues without training anything twice.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ablations.store.files import read_file, write_atomic
from ablations.store.results import Results
from analysis import plots, report
from analysis.claims import claims, finding_text, verdict_counts
from analysis.contrasts import Evidence
from analysis.predictions import REFUTED, SUPPORTED
from analysis.tables import escape
from analysis.wording import plain

RECORDS, FINDINGS, MANIFEST = "records.zip", "findings.md", "published.json"
MOST = 30 * 2**20  # bytes
HEADLINES = (
    "position.needed", "position.alibi-longer", "norm.post-needs-warmup", "heads.more-than-one",
    "scale.growth", "smoothing.likelihood", "recurrent.bottleneck", "recurrent.training-speed",
    "cost.memory", "train.residual",
)  # fmt: skip
"""The claims shown in the README if they are decided: one or two for each axis."""


def publish(evidence: Evidence, to: Path) -> list[Path]:
    """Write tables, figures, page and records to `to`, which is new, empty or published before.

    Only files that were published before are replaced or removed.
    """
    root = evidence.loaded.root
    if not (root / report.PAGE).is_file():
        raise ValueError(f"no report in {root}: ablations report --results {root}")
    before = _published(to)
    contents = _contents(evidence)
    size = sum(map(len, contents.values()))
    if size > MOST:
        raise ValueError(f"{size / 2**20:.0f} MiB are too many to keep: at most {MOST >> 20}")
    for name in contents.keys() - before.keys():
        if (to / name).exists():
            raise ValueError(f"{to / name} is in the way, and was not published from here: move it")
    digests = {name: _digest(content) for name, content in contents.items()}
    # The list is written first, so that an interrupted run can be repeated.
    _list(to, {**before, **digests})
    for name, content in contents.items():
        write_atomic(to / name, content)
    for name, digest in before.items():  # files changed by somebody since then are kept
        path = to / name
        if name not in contents and path.is_file() and _digest(read_file(path)) == digest:
            path.unlink()
    _list(to, digests)
    return [to / name for name in (*contents, MANIFEST)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _published(to: Path) -> dict[str, str]:
    """Name → digest of the files published here; ValueError if the folder has others."""
    refused = f"{str(to)[:200]!r} holds files that were not published from here"
    if not to.exists():
        return {}
    if not to.is_dir():
        raise ValueError(f"{str(to)[:200]!r} is no folder: name a new or empty folder with --to")
    try:
        files = json.loads(read_file(to / MANIFEST))["files"] if any(to.iterdir()) else {}
    except (OSError, ValueError, KeyError, TypeError):
        files = None
    if not isinstance(files, dict) or any(
        PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in files
    ):
        raise ValueError(f"{refused}: name a new or empty folder with --to")
    return files


def _list(to: Path, files: Mapping[str, str]) -> None:
    write_atomic(to / MANIFEST, json.dumps({"files": dict(sorted(files.items()))}, indent=1) + "\n")


def _contents(evidence: Evidence) -> dict[str, bytes]:
    """Name → content of every file of a report."""
    root = evidence.loaded.root
    panels = plots.panels(evidence)
    kept = [root / "claims.json", root / "plan.json", *sorted((root / "tables").iterdir())]
    figures = [path for panel in panels for path in report.figure_files(panel, root)]
    kept += [path for path in figures if path.is_file()]
    found = {path.relative_to(root).as_posix(): read_file(path) for path in kept}
    found[report.PAGE.as_posix()] = report.render(evidence, panels).encode()
    found[RECORDS] = packed(Results(root))
    found[FINDINGS] = headlines(evidence).encode()
    return found


def packed(results: Results) -> bytes:
    """A zip of the plan and its records; equal records give equal bytes."""
    plan = results.read_plan()
    trials = (trial for entry in plan["experiments"].values() for trial in entry["trials"])
    paths = [results.path(name) for name in sorted({trial["id"] for trial in trials})]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in (results.plan_file, *(path for path in paths if path.is_file())):
            entry = zipfile.ZipInfo(path.relative_to(results.root).as_posix())
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(entry, read_file(path))
    return held.getvalue()


def headlines(evidence: Evidence) -> str:
    """Markdown: the number of claims by verdict, and the headline claims with their numbers."""
    decided = claims(evidence)
    ids = len({claim["id"] for claim in decided})
    words = verdict_counts(decided)
    lines = [f"{ids} claims, {len(decided)} verdicts, each at its own task and size: {words}.", ""]
    lines += ["| claim | verdict | measured |", "|---|---|---|"]
    known = [each for each in decided if each["verdict"] in (SUPPORTED, REFUTED)]
    shown = [claim for claim in known if claim["id"] in HEADLINES]
    for claim in sorted(shown, key=lambda claim: HEADLINES.index(claim["id"])):
        name = claim["scope"]["experiment"]
        metrics = evidence.loaded.experiments[name]["metrics"]
        measured = f"{plain(finding_text(claim['findings'][0], metrics))}; n = {claim['n']}"
        cells = (claim["statement"], f"{claim['verdict']} ({name})", measured)
        lines.append(f"| {' | '.join(map(escape, cells))} |")
    return "\n".join(lines) + "\n"
