"""The page answers first, admits what failed, loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis import report
from analysis.evidence import gather
from analysis.sentences import answers, bounds, count, number, plain
from analysis.tables import CAPTION
from analysis.tables.cells import MARKS

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\" onload='x"]
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """What a browser would make of the page: its elements, their attributes, its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def written(root: Path) -> str:
    *_, page = report.write(gather(root))
    return page.read_text(encoding="utf-8")


@pytest.fixture
def page(shown: Path) -> str:
    return shown.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_stands_alone(page: str) -> None:
    parsed = Page(page)
    assert not parsed.open
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"link", "iframe", "object", "embed", "img", "base", "form"}
    for tag, attributes in parsed.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", (tag, value)
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                is_beside = tag == "a" and "download" in attributes
                assert (value or "").startswith("../" if is_beside else "#"), (tag, name, value)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "http:" not in page
    assert "https:" not in page


def test_every_id_is_given_once_and_every_reference_finds_it(page: str) -> None:
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_every_download_is_there(page: str, shown: Path) -> None:
    files = [given["href"] for _, given in Page(page).elements if "download" in given]
    assert {str(file).rpartition(".")[2] for file in files} >= {"csv", "svg", "pdf", "png", "json"}
    assert all((shown.parent / str(file)).is_file() for file in files)


def test_the_policy_allows_the_pages_own_script_and_look_and_nothing_else(page: str) -> None:
    allowed = re.findall(r"(script|style)-src &#39;sha256-([^&]+)&#39;", page)
    for kind, given in allowed:
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL)
        assert given == base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert [kind for kind, _ in allowed] == ["script", "style"]
    assert "unsafe" not in page


def section(page: str, question: str) -> str:
    """The words of one question's section."""
    found = re.findall(r'<section class="question".*?</section>', page, flags=re.DOTALL)
    (text,) = [each for each in found if question in each]
    return Page(text).text


def test_a_question_has_everything_in_one_place(page: str) -> None:
    text = section(page, "Does the model need to be told where a token stands?")
    order = [
        "position on g2p; 27 of 30 trials done",
        "With none the phone error rate is 0.200 higher than with sinusoidal",
        "Without positions an encoder-decoder loses most of its quality",
        "0.200 (0.195 to 0.206)",
        "What this does not show",
        "241,066 parameters (of the control), 5 seeds: it says nothing of others",
        "learned positions add max_len × d_model parameters",
        "Of 30 trials: 1 diverged, 1 unreadable.",
        "2 of 30 trials are still to be run.",
        "model.n_heads=8",
        "python -m ablations run position --profile smoke model.n_heads=8",
        "contrasts.csv",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_the_marks_of_tables_are_explained(page: str) -> None:
    words = "".join(Page(page).words)
    assert CAPTION in words
    assert all(f") {mark}" in words for mark in MARKS.values())


def test_a_claim_and_its_question_lead_to_each_other(page: str) -> None:
    row = re.search(r'<tr id="(claim-\d+)".*?position\.needed.*?</tr>', page, flags=re.DOTALL)
    assert row is not None
    assert 'href="#q-position"' in row[0]
    own = page[page.index('<section class="question" id="q-position"') :]
    assert f'href="#{row[1]}"' in own[: own.index("</section>")]


def test_the_verdicts_are_counted_and_each_is_a_link(page: str, shown: Path) -> None:
    decided = json.loads((shown.parents[1] / "claims.json").read_text(encoding="utf-8"))
    for word in ("supported", "refuted", "undecided", "not run"):
        n = sum(claim["verdict"] == word for claim in decided)
        assert f"<strong>{n}</strong> {word}</p>" in page
        assert page.count(f'<a class="tile {word.replace(" ", "-")}" href="#claim-') == n


def test_a_partial_run_says_that_it_is_partial(page: str) -> None:
    text = Page(page).text
    assert "This report is partial: 84 of 93 trials are done." in text
    assert "Partial: 27 of 30 trials done." in text
    assert "Not run yet: 0 of 6 trials done." in text


def test_details_failures_and_environment_are_all_there(page: str) -> None:
    text = Page(page).text
    for words in (
        "learned positions add max_len × d_model parameters",
        "Without positions an encoder-decoder loses most of its quality",
        "CS224N, UMass, MIT, STAT453",
        "model.n_heads=8",
        "loss is NaN at step 120",
        "not readable as JSON",
        "device cpu, torch 2.13.0, threads 1",
        "commit 0f3c2d1, dirty no",
    ):
        assert words in text


def test_nothing_else_of_the_environment_reaches_the_page(page: str) -> None:
    assert "hunter2" not in page
    assert "API_KEY" not in page


def test_every_drawing_has_words_for_those_who_cannot_see_it(page: str) -> None:
    drawings = [given for tag, given in Page(page).elements if tag == "svg" and "role" in given]
    assert len(drawings) >= 2
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 40


def test_the_page_is_the_same_when_made_again(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[0])
    folder.record("64", 0, 0.25)
    folder.record("128", 0, 0.20)
    assert written(folder.root) == written(folder.root)


def test_hostile_names_are_inert_wherever_they_stand(folder: Any) -> None:
    for index, name in enumerate(HOSTILE):
        folder.ablation(
            name,
            [f"control {name}", name],
            question=name,
            task=name,
            fixed=name,
            moves=name,
            overrides=[name],
            claims=[folder.claimed(name, "worse", name, than=f"control {name}")],
            metric={"name": "per", "split": "valid", "better": "lower", "label": name},
            seeds=[0, 1],
            crossings=[{name: name}],
        )
        across = {name: name}
        env = {"torch": name, "commit": name}
        folder.record(f"control {name}", 0, 0.2, across=across, env=env, unit=name)
        folder.record(name, 0, 0.3, across=across, env=env, unit=name)
        status = ["error", "oom", "diverged"][index]
        folder.record(name, 1, status=status, across=across, reason=f"boom\n{name}", env=env)
    text = written(folder.root)
    parsed = Page(text)
    assert [tag for tag, _ in parsed.elements if tag in ("script", "img")] == ["script"]
    assert not any(name.startswith("on") for _, given in parsed.elements for name in given)
    assert HOSTILE[0] in parsed.text
    assert HOSTILE[1] in parsed.text


def test_what_is_only_timed_on_the_way_to_a_question_comes_last(folder: Any) -> None:
    folder.ablation("timed", ["pre", "post"], arms="pacing", claims=[])
    folder.ablation("norm", ["pre", "post"])
    text = report.write(gather(folder.root))[-1].read_text(encoding="utf-8")
    assert re.findall(r'<section class="question" id="q-([^"]*)"', text) == ["norm", "timed"]


def test_several_machines_are_listed_apart_and_said_so(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[0])
    folder.record("64", 0, 0.25, env={"torch": "2.13.0", "device": "cpu", "commit": "a"})
    folder.record("128", 0, 0.20, env={"torch": "2.12.0", "device": "cpu", "commit": "b"})
    text = Page(written(folder.root)).text
    assert "2 different machines or settings" in text
    assert "2 versions of the code" in text


def test_a_plan_with_nothing_in_it_still_makes_a_page(folder: Any) -> None:
    folder.results.write_plan(folder.plan)
    assert "0 of 0 done" in Page(written(folder.root)).text


def answer(folder: Any) -> str:
    (text,) = answers(gather(folder.root)).values()
    return plain(text)


def test_one_seed_says_n_is_1_and_gives_no_verdict(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[0])
    folder.record("64", 0, 0.25)
    folder.record("128", 0, 0.20)
    text = answer(folder)
    assert text == (
        "No verdict from one seed (n=1): "
        "with “128” the phone error rate is 0.0500 lower than with “64”."
    )
    assert not re.search(r"better|worse|interval", text)


def test_a_resolved_question_is_answered_with_its_interval(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"])
    for seed, noise in enumerate((0.0, 0.01, 0.02)):
        folder.record("sinusoidal", seed, 0.25)
        folder.record("none", seed, 0.65 + noise)
    assert answer(folder) == (
        "With “none” the phone error rate is 0.410 higher than with “sinusoidal” "
        "(95 % interval 0.385 to 0.435, n = 3), worse."
    )


def test_an_improvement_is_told_as_a_size_with_ends_that_fit(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "rotary"])
    for seed, noise in enumerate((0.0, 0.01, 0.02)):
        folder.record("sinusoidal", seed, 0.65 + noise)
        folder.record("rotary", seed, 0.25)
    told = "0.410 lower than with “sinusoidal” (95 % interval 0.385 to 0.435, n = 3)"
    assert told in answer(folder)


def test_an_undertrained_control_is_no_answer(folder: Any) -> None:
    folder.ablation("depth", ["deep", "shallow"])
    for seed in range(3):
        folder.record("deep", seed, 0.9, status="stuck")
        folder.record("shallow", seed, 0.5)
    assert answer(folder).startswith(
        "Undecided: undertrained. The control, “deep”, ended no better"
    )


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.4137, 0.061, "0.41"),
        (0.4137, 0.021, "0.414"),
        (-0.02, 0.05, "−0.02"),
        (-0.0001, 0.05, "0.00"),
        (0.25, float("nan"), "0.250"),
        (float("nan"), 0.1, ""),
        (1.5e-9, float("nan"), "1.5e−09"),
    ],
)
def test_a_number_has_the_digits_that_its_interval_deserves(
    value: float, half: float, text: str
) -> None:
    assert number(value, half) == text


def test_both_ends_of_an_interval_have_the_same_precision() -> None:
    assert bounds(0.3512, 0.4698) == "0.35 to 0.47"
    assert [count(n) for n in (241_066, 1.4e6, 999_999, 12)] == ["241 k", "1.4 M", "1 M", "12"]


def test_records_made_by_other_code_are_said_to_be_stale(folder: Any) -> None:
    folder.ablation("position", ["control", "none"], seeds=[0])
    folder.record("control", 0, 0.2)
    folder.record("none", 0, 0.3, env={"code": {"model/norm.py": "before"}})
    assert "1 of the records are stale" in written(folder.root)


def test_what_is_counted_is_answered_by_its_claims_not_by_a_lack_of_seeds(folder: Any) -> None:
    from speed_lab import build_lab

    from analysis.claims import claims

    build_lab(folder)
    evidence = gather(folder.root)
    told = answers(evidence, claims(evidence)).values()
    assert any(re.fullmatch(r"(Its claim is|All \d+ of its claims are) \w+\.", t) for t in told)
    assert any(text.startswith("Of its ") for text in told)
    assert not any("seed" in text for text in told if "claim" in text)


def test_a_claim_is_told_by_its_first_effect_and_says_how_many_more_there_are(folder: Any) -> None:
    first = folder.claimed("norm.both", "worse", "post", than="pre")
    second = folder.claimed("norm.both", "better", "none", than="pre")
    both = {**first, "predicts": [*first["predicts"], *second["predicts"]]}
    alone = folder.claimed("norm.alone", "worse", "none", than="pre")
    seeds = [200, 201, 202]
    folder.ablation("norm", ["pre", "post", "none"], seeds=seeds, claims=[both, alone])
    for label, mean in (("pre", 0.2), ("post", 0.6), ("none", 0.9)):
        for seed in seeds:
            folder.record(label, seed, mean + 0.001 * (seed % 3) * len(label))
    page = written(folder.root)
    (table,) = re.findall(r'<table class="flow claims".*?</table>', page, flags=re.DOTALL)
    rows = [re.sub(r"<[^>]+>", "", row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    (told,) = [row for row in rows if "norm.both" in row]
    assert "post − pre +0.4" in told
    assert "and 1 more" in told
    (told,) = [row for row in rows if "norm.alone" in row]
    assert "none − pre +0.7" in told
    assert "more" not in told


def test_the_verdict_stands_beside_the_name_it_is_about(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[200, 201, 202])
    for label, mean in (("pre", 0.2), ("post", 0.6)):
        for seed in (200, 201, 202):
            timed = folder.timing(1.5 if label == "post" else 1.0) if seed == 200 else []
            folder.record(label, seed, mean + 0.001 * (seed % 3) * len(label), readings=timed)
    heads = [
        [
            re.sub(r"<[^>]+>", "", cell).strip()
            for cell in re.findall(r"<th.*?</th>", row, re.DOTALL)
        ]
        for row in re.findall(r"<thead>.*?</thead>", written(folder.root), re.DOTALL)
    ]
    found = [head for head in heads if head[:1] == ["variant"]]
    assert len(found) == 2, "of scores and of times"
    assert all(head[1] == "verdict" for head in found)
