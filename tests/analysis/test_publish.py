"""What is published goes on where it ended, and no file of anybody else's is touched."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ablations.commands import main
from ablations.store.results import Results
from ablations.store.stamp import ROOT
from analysis import report
from analysis.claims import claims
from analysis.contrasts import Evidence, gather
from analysis.load import load
from analysis.publish import (
    FINDINGS,
    HEADLINES,
    MANIFEST,
    MOST,
    RECORDS,
    headlines,
    packed,
    publish,
)

REFERENCE = ROOT / "results" / "reference"


@pytest.fixture(scope="module")
def published(shown: Path, evidence: Evidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("published")
    paths = publish(evidence, to)
    assert {path for path in to.rglob("*") if path.is_file()} == set(paths)
    return to


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_records_that_are_unpacked_are_the_records(
    evidence: Evidence, published: Path, tmp_path: Path
) -> None:
    shutil.unpack_archive(published / "records.zip", tmp_path)
    back = load(tmp_path)
    assert back.records == evidence.loaded.records
    assert len(back.records) > 10
    assert back.plan == evidence.loaded.plan
    kept = json.loads((published / "claims.json").read_text())
    assert kept == json.loads(json.dumps(claims(gather(tmp_path))))


def test_every_link_of_a_published_page_leads_to_a_file(published: Path) -> None:
    found = files(published)
    assert {"claims.json", RECORDS, FINDINGS, MANIFEST, "figures/overview.png"} < set(found)
    page = found["report/index.html"].decode()
    for target in set(re.findall(r'(?:href|src)="\.\./([^"]+)"', page)):
        assert unquote(target) in found, target


def test_equal_records_are_packed_into_equal_bytes_and_strangers_are_left_out(
    evidence: Evidence, published: Path
) -> None:
    root = evidence.loaded.root
    stray = root / "trials" / "0123456789ab.json"
    stray.write_text("{}")
    try:
        assert packed(Results(root)) == (published / RECORDS).read_bytes()
    finally:
        stray.unlink()
    with zipfile.ZipFile(published / RECORDS) as file:
        assert file.namelist()[0] == "plan.json"
        assert "trials/0123456789ab.json" not in file.namelist()


# --- whose files they are


@pytest.fixture
def small(folder: Any) -> Path:
    folder.ablation("width", ["64", "128"], seeds=[300])
    folder.record("64", 300, 0.25)
    folder.record("128", 300, 0.20)
    report.write(gather(folder.root))
    return folder.root


FOREIGN = [
    *(("tables/mine.csv", "precious"), ("x", "precious"), (MANIFEST, "")),
    *((MANIFEST, '{"files": []}'), (MANIFEST, '{"files": {"../victim": "0"}}')),
    (MANIFEST, '{"files": {"/victim": "0"}}'),
]


def test_a_folder_with_files_of_somebody_else_is_refused_and_left_as_it_was(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "victim").write_text("precious")
    for i, (name, content) in enumerate(FOREIGN):
        to = tmp_path / str(i)
        (to / name).parent.mkdir(parents=True)
        (to / name).write_text(content)
        assert main(["publish", "--results", str(small), "--to", str(to)]) == 2
        out, err = capsys.readouterr()
        assert "name a new or empty folder" in err
        assert (out, err.count("\n")) == ("", 1)
        assert files(to) == {name: content.encode()}
    assert (tmp_path / "victim").read_text() == "precious"


def test_publishing_again_replaces_its_own_files_and_nothing_else(
    small: Path, tmp_path: Path
) -> None:
    to, held = tmp_path / "kept", gather(small)
    publish(held, to)
    first = files(to)
    for name in ("old.csv", "noted.csv"):
        (small / "tables" / name).write_text("of an older run")
    publish(held, to)
    for name in ("old.csv", "noted.csv"):
        assert (to / "tables" / name).is_file()
        (small / "tables" / name).unlink()
    (to / "tables" / "noted.csv").write_text("with my notes")
    (to / "tables" / "mine.csv").write_text("precious")
    (to / "figures" / "mine.svg").write_text("precious")
    publish(held, to)
    mine = {"tables/mine.csv": b"precious", "figures/mine.svg": b"precious"}
    mine["tables/noted.csv"] = b"with my notes"
    assert files(to) == {**first, **mine}
    (small / "tables" / "mine.csv").write_text("theirs")
    with pytest.raises(ValueError, match=r"mine\.csv is in the way"):
        publish(held, to)
    assert files(to) == {**first, **mine}


def test_a_file_as_target_too_many_bytes_and_a_missing_report_are_refused(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("precious")
    held = gather(small)
    with pytest.raises(ValueError, match="is no folder"):
        publish(held, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"
    monkeypatch.setattr("analysis.publish.MOST", 1000)
    with pytest.raises(ValueError, match="too many to keep"):
        publish(held, tmp_path / "kept")
    (small / report.PAGE).unlink()
    with pytest.raises(ValueError, match="ablations report"):
        publish(held, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


# --- findings


def test_findings_count_every_verdict_and_tell_the_decided_ones(folder: Any) -> None:
    seeds = [300, 301, 302]
    names = ("position.needed", "heads.more-than-one", "norm.helps")  # the last is no headline
    words = ("worse", "better", "worse")
    found = [
        folder.claimed(name, word, "none", than="with")
        for name, word in zip(names, words, strict=True)
    ]
    folder.ablation("position", ["with", "none"], seeds=seeds, claims=found)
    for seed in seeds:
        folder.record("with", seed, 0.30 + 0.001 * (seed % 3))
        folder.record("none", seed, 0.80 + 0.002 * (seed % 2))
    first, _, _, _, needed, heads = headlines(gather(folder.root)).splitlines()
    assert first.startswith("3 claims, 3 verdicts")
    assert first.endswith("2 supported, 1 refuted.")
    assert "supported (position)" in needed
    assert "“none” − “with” +0.5" in needed
    assert needed.endswith("; n = 3 |")
    assert "refuted (position)" in heads


# --- the results beside the code


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder = tmp_path_factory.mktemp("reference")
    shutil.unpack_archive(REFERENCE / "records.zip", folder)
    return gather(folder)


def test_the_readme_tells_what_the_records_beside_the_code_say(kept: Evidence) -> None:
    readme = (ROOT / "README.md").read_text()
    text = headlines(kept)
    assert (REFERENCE / FINDINGS).read_text() == text
    assert text in readme
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)
    assert pictures == ["results/reference/figures/overview.png"]
    assert (ROOT / pictures[0]).is_file()


def test_verdicts_and_page_beside_the_code_are_those_of_the_records(kept: Evidence) -> None:
    from ablations.predictions import read_claims

    def read(text: str) -> Any:  # the last bits of a mean differ between processors
        return json.loads(text, parse_float=lambda number: round(float(number), 9))

    decided = read(json.dumps(claims(kept)))
    assert read((REFERENCE / "claims.json").read_text()) == decided
    assert {*HEADLINES, *(each["id"] for each in decided)} <= set(read_claims())
    assert not [each["id"] for each in decided if each["verdict"] == "not run"]
    assert kept.loaded.plan["profile"] == "quick"
    assert not kept.loaded.unreadable
    page = (REFERENCE / "report" / "index.html").read_text()
    assert all(f'<code class="id">{each["id"]}</code>' in page for each in decided)
    for target in set(re.findall(r'(?:href|src)="\.\./([^"]+)"', page)):
        assert (REFERENCE / unquote(target)).is_file(), target
    assert sum(path.stat().st_size for path in REFERENCE.rglob("*") if path.is_file()) < MOST
