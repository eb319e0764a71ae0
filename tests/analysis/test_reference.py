"""What is kept of a run goes on where it ended, and its findings are those of its records."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ablations.store.schema import RecordError
from ablations.store.stamp import ROOT
from analysis import report
from analysis.claims import claims
from analysis.evidence import Evidence, gather
from analysis.load import load
from analysis.reference import (
    FINDINGS,
    HEADLINES,
    MOST,
    RECORDS,
    headlines,
    packed,
    publish,
    unpack,
)
from analysis.verdicts import NOT_RUN


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Path:
    """A folder whose report is written; its drawings are not of interest here."""
    folder: Path = sweep(tmp_path_factory.mktemp("sweep")).root
    report.write(gather(folder), processes=1)
    return folder


def test_records_that_are_unpacked_are_the_records(root: Path, tmp_path: Path) -> None:
    publish(gather(root), tmp_path / "kept")
    unpack(tmp_path / "kept", tmp_path / "back")
    here, back = load(root), load(tmp_path / "back")
    assert back.records == here.records
    assert len(back.records) > 10
    assert back.plan == here.plan


def test_what_is_kept_has_page_tables_figures_and_verdicts(root: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "old.csv").write_text("of an older run")
    (tmp_path / "bench.md").write_text("measured elsewhere")
    paths = publish(gather(root), tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in paths}
    assert found > {"report/index.html", "claims.json", "figures/overview.png", RECORDS, FINDINGS}
    assert found > {"tables/contrasts.csv", "tables/contrasts.md"}
    assert not (tmp_path / "tables" / "old.csv").exists()
    assert (tmp_path / "bench.md").exists()
    assert all(path.read_bytes() for path in paths)


def test_equal_records_are_packed_into_equal_bytes_without_dates(root: Path) -> None:
    results = load(root)
    from ablations.store.results import Results

    first, again = packed(Results(results.root)), packed(Results(results.root))
    assert first == again


def test_a_file_that_the_plan_does_not_name_is_not_packed(root: Path, tmp_path: Path) -> None:
    stray = root / "trials" / "0123456789ab.json"
    stray.write_text("{}")
    try:
        publish(gather(root), tmp_path)
    finally:
        stray.unlink()
    with zipfile.ZipFile(tmp_path / RECORDS) as file:
        assert "trials/0123456789ab.json" not in file.namelist()
        assert file.namelist()[0] == "plan.json"


def test_without_a_report_nothing_is_kept(root: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.json").write_bytes((root / "plan.json").read_bytes())
    with pytest.raises(RecordError, match="python -m analysis report"):
        publish(gather(tmp_path / "run"), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_more_than_can_be_kept_is_refused_before_anything_is_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.reference.MOST", 1000)
    with pytest.raises(RecordError, match="too many to keep"):
        publish(gather(root), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_findings_count_every_verdict_and_tell_the_decided_ones(folder: Any) -> None:
    seeds = [200, 201, 202, 203, 204]
    found = [
        folder.claimed("position.needed", "worse", "none", than="with", by=0.1),
        folder.claimed("heads.more-than-one", "better", "none", than="with"),
        folder.claimed("norm.helps", "worse", "none", than="with", by=0.1),  # no headline
    ]
    folder.ablation("position", ["with", "none"], seeds=seeds, claims=found)
    for seed in seeds:
        folder.record("with", seed, 0.30 + 0.001 * (seed % 3))
        folder.record("none", seed, 0.80 + 0.002 * (seed % 2))
    first, _, _, _, *rows = headlines(gather(folder.root)).splitlines()
    assert first.startswith("3 claims, 3 verdicts")
    assert first.endswith("2 supported, 1 refuted.")
    needed, heads = rows  # in the order of the README, and no other
    assert "supported (position)" in needed
    assert "“none” − “with” +0.500" in needed
    assert needed.endswith("; n = 3 |")
    assert "refuted (position)" in heads


def test_the_claims_of_the_headlines_are_in_the_ledger() -> None:
    from ablations.plan.ledger import ledger

    assert set(HEADLINES) <= set(ledger())


def test_verdicts_that_are_kept_are_those_of_the_records(root: Path, tmp_path: Path) -> None:
    publish(gather(root), tmp_path / "kept")
    unpack(tmp_path / "kept", tmp_path / "back")
    kept = json.loads((tmp_path / "kept" / "claims.json").read_text())
    assert kept == json.loads(json.dumps(claims(gather(tmp_path / "back"))))


REFERENCE = ROOT / "results" / "reference"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """The results beside the code, from their records."""
    folder = tmp_path_factory.mktemp("reference")
    unpack(REFERENCE, folder)
    return gather(folder)


def test_the_readme_tells_what_the_records_beside_the_code_say(kept: Evidence) -> None:
    readme = (ROOT / "README.md").read_text()
    told = headlines(kept)
    assert (REFERENCE / FINDINGS).read_text() == told
    assert told in readme
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)
    assert pictures == ["results/reference/figures/overview.png"]
    assert (ROOT / pictures[0]).is_file()


def test_verdicts_and_page_beside_the_code_are_those_of_the_records(kept: Evidence) -> None:
    def told(decided: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(each["id"], each["scope"], each["verdict"], each["n"]) for each in decided]

    written = json.loads((REFERENCE / "claims.json").read_text())
    found = json.loads(json.dumps(claims(kept)))
    assert told(written) == told(found)
    assert kept.loaded.plan["profile"] == "quick"
    assert not kept.loaded.unreadable
    page = (REFERENCE / "report" / "index.html").read_text()
    assert all(f'<code class="id">{each["id"]}</code>' in page for each in written)
    for target in set(re.findall(r'href="\.\./([^"]+)"', page)):
        assert (REFERENCE / unquote(target)).is_file(), target
    assert sum(path.stat().st_size for path in REFERENCE.rglob("*") if path.is_file()) < MOST


def test_every_claim_of_the_reference_was_run(kept: Evidence) -> None:
    from ablations.plan.ledger import ledger

    decided = claims(kept)
    assert {each["id"] for each in decided} <= set(ledger())
    assert not [each["id"] for each in decided if each["verdict"] == NOT_RUN]
