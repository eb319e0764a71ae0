"""The page answers every question in words, tells what it does not know, and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from analysis import chapters, report
from analysis.claims import finding_text, verdict_counts
from analysis.contrasts import gather
from analysis.wording import plain

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\" onload='x"]
OLD_SEEDS = "Some seeds here were drawn under an earlier rule of decision."
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """What a browser would make of the page: its elements, their attributes, its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

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


@pytest.fixture(scope="module")
def page(shown: Path) -> str:
    return shown.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_asks_for_nothing_but_the_files_beside_it(
    page: str, shown: Path
) -> None:
    parsed = Page(page)
    assert not parsed.open
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"link", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in parsed.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", (tag, value)
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                is_beside = tag == "img" or "download" in attributes
                assert (value or "").startswith("../" if is_beside else "#"), (tag, name, value)
                assert not is_beside or (shown.parent / unquote(value or "")).is_file()
    assert not re.search(r"@import|url\(|https?:", page)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^")]+)', page)) <= set(ids)


def test_the_policy_allows_the_pages_own_script_and_look_and_nothing_else(page: str) -> None:
    allowed = re.findall(r"(script|style)-src &#39;sha256-([^&]+)&#39;", page)
    for kind, given in allowed:
        (source,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL)
        assert given == base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    assert [kind for kind, _ in allowed] == ["script", "style"]
    assert "default-src &#39;none&#39;" in page
    assert "unsafe" not in page


def test_every_figure_is_a_file_with_words_for_those_who_cannot_see_it(
    page: str, shown: Path
) -> None:
    images = [given for tag, given in Page(page).elements if tag == "img"]
    files = {unquote(str(given["src"])).rpartition("/")[2] for given in images}
    assert files == {path.name for path in (shown.parents[1] / "figures").glob("*.svg")}
    assert len(images) >= 5
    assert all(len(given["alt"] or "") > 30 for given in images)


def section(page: str, question: str) -> str:
    """The words of one question's section."""
    found = re.findall(r'<section class="experiment".*?</section>', page, flags=re.DOTALL)
    (own,) = [each for each in found if question in each]
    return Page(own).text


def test_a_question_has_everything_in_one_place_its_verdict_first(page: str) -> None:
    words = section(page, "Does the model need to be told where a token stands?")
    order = [
        "supported",
        "Without positions an encoder-decoder loses most of its quality",
        "ith none the phone error rate is 0.200 higher than with sinusoidal",
        "(95 % interval 0.195 to 0.206, n = 5), worse",
        "0.200 (0.195 to 0.206)",
        "What this does not show",
        "241,066 parameters (of the baseline), 5 seeds: it says nothing of others",
        "Not held fixed: learned positions add max_len × d_model parameters.",
        "Of 30 trials: 1 diverged, 1 unreadable.",
        "ablations run position --profile smoke model.n_heads=8",
    ]
    places = [words.find(each) for each in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_verdicts_are_counted_and_claims_and_questions_lead_to_each_other(
    page: str, shown: Path
) -> None:
    decided = json.loads((shown.parents[1] / "claims.json").read_text(encoding="utf-8"))
    assert f"Here: {verdict_counts(decided)}." in page
    row = re.search(r'<tr id="(claim-\d+)".*?position\.needed.*?</tr>', page, flags=re.DOTALL)
    assert row is not None
    assert 'href="#experiment-position"' in row[0]
    _, _, own = page.partition('<section class="experiment" id="experiment-position"')
    assert f'href="#{row[1]}"' in own.partition("</section>")[0]


def test_failures_environment_and_what_is_missing_are_told_and_no_secret(page: str) -> None:
    words = Page(page).text
    for each in (
        *("loss is NaN at step 120", "not readable as JSON", "commit 0f3c2d1, dirty no"),
        *("device cpu, torch 2.13.0, threads 1", "14 to 19 % are.", OLD_SEEDS),
        *("Partial: 27 of 30 trials done.", "Not run yet: 0 of 6 trials done."),
    ):
        assert each in words
    assert re.search(r"partial: \d+ of \d+ trials are done. Complete passes: \d of 5", words)
    assert re.search(r"of \d+ differences in tables at most \S+ would be marked if none", words)
    assert "hunter2" not in page
    assert "API_KEY" not in page


def test_hostile_names_are_inert_wherever_they_stand(folder: Any) -> None:
    for status, name in zip(("error", "oom", "diverged"), HOSTILE, strict=True):
        control, factors = f"control {name}", {name: name}
        metric = {"name": "per", "split": "valid", "better": "lower", "title": name}
        folder.ablation(
            name, [control, name], question=name, task=name, held_constant=name, changes=name,
            overrides=[name], claims=[folder.claimed(name, "worse", name, than=control)],
            metric=metric, seeds=[0, 1], crossings=[factors],
        )  # fmt: skip
        told = {"factors": factors, "env": {"torch": name, "commit": name}}
        folder.record(control, 0, 0.2, unit=name, **told)
        folder.record(name, 0, 0.3, unit=name, **told)
        folder.record(name, 1, status=status, reason=f"boom\n{name}", **told)
    parsed = Page(written(folder.root))
    assert [tag for tag, _ in parsed.elements if tag == "script"] == ["script"]
    for tag, given in parsed.elements:
        assert not any(name.startswith("on") for name in given)
        assert tag != "img" or str(given["src"]).startswith("../figures/")
    assert HOSTILE[0] in parsed.text
    assert HOSTILE[1] in parsed.text
    inside = folder.root / "figures"
    assert all(path.resolve().is_relative_to(inside) for path in inside.rglob("*"))


def test_the_page_is_the_same_when_made_again_and_tells_machines_and_code_apart(
    folder: Any,
) -> None:
    folder.ablation("width", ["64", "128"], seeds=[300])
    stale = {"code": {"model/norms.py": "before"}}
    folder.record("64", 300, 0.25, env={"torch": "2.13.0", "device": "cpu", "commit": "a"})
    other = {"torch": "2.12.0", "device": "cpu", "commit": "b"}
    folder.record("128", 300, 0.20, env={**other, **stale})
    page = written(folder.root)
    assert written(folder.root) == page
    assert "2 different machines or settings" in page
    assert "2 versions of the code" in page
    assert "1 of the records are stale" in page
    assert OLD_SEEDS not in page


def test_a_pass_is_complete_when_every_table_has_its_seed(folder: Any) -> None:
    """Seeds of what is not trained are of no pass, unless there is nothing else."""
    folder.ablation("width", ["64", "128"], seeds=[300, 301, 302])
    folder.ablation("depth", ["2", "4"], seeds=[300])
    folder.ablation("counted", ["2", "4"], trained=False, seeds=range(300, 310))
    for label, seeds in (("64", (300, 301, 302)), ("128", (300, 302)), ("2", (300,))):
        for seed in seeds:
            folder.record(label, seed, 0.2)
    loaded = gather(folder.root).loaded
    assert loaded.passes() == (0, 3)
    assert loaded.passes(["width"]) == (1, 3)
    assert loaded.passes(["counted"]) == (0, 10)
    folder.record("4", 300, 0.2)
    assert gather(folder.root).loaded.passes() == (1, 3)


def test_before_the_last_pass_the_page_has_intervals_and_no_verdicts(folder: Any) -> None:
    folder.ablation("norm/g2p", ["pre", "post"], seeds=range(300, 305))
    for i, seed in enumerate(range(300, 305)):
        folder.record("pre", seed, 0.2 + 0.01 * i)
        if i < 3:
            folder.record("post", seed, 0.4 + 0.011 * i)
    page = written(folder.root)
    own = section(page, "Does norm/g2p matter?")
    assert "pass 3 of 5" in own
    assert "0.2010 (0.1985 to 0.2035)" in own
    wide = Page(page).text.partition("Norm placement: every variant")[2]
    assert "unfinished" in wide.partition("Claims")[0]
    for word in ("supported", "refuted", "undecided", "), worse", "post worse"):
        assert word not in own, word
    for seed in (303, 304):
        folder.record("post", seed, 0.4 + 0.011 * (seed - 300))
    own = section(written(folder.root), "Does norm/g2p matter?")
    assert all(word in own for word in ("supported", "), worse", "post worse"))


# --- sentences


def test_an_answer_tells_differences_with_intervals_then_ties_then_the_rest(folder: Any) -> None:
    metric: dict[str, Any] = {"name": "per", "split": "valid", "better": "lower"}
    metric |= {"title": "phone error rate", "matters": 0.05}
    labels = ["sinusoidal", "none", "rotary", "learned", "alibi", "t5", "relative"]
    folder.ablation("position", labels, metric=metric)
    for seed, noise in enumerate((0.0, 0.01, 0.02)):
        for label, mean, own in (
            ("sinusoidal", 0.25, 0.0),
            ("none", 0.65, noise),
            ("rotary", 0.15, -noise),
            ("learned", 0.25, noise - 0.01),
            ("alibi", 0.25, 20 * noise - 0.2),
        ):
            folder.record(label, seed, mean + own)
        folder.record("t5", seed, status="diverged")
    told = chapters.answer(gather(folder.root), "position")
    assert plain(told) == (
        "With “none” the phone error rate is 0.410 higher than with “sinusoidal” (95 % interval "
        "0.385 to 0.435, n = 3), worse; with “rotary” 0.110 lower (95 % interval 0.085 to 0.135, "
        "n = 3), better; a tie with “sinusoidal”: “learned”; no difference is resolved for "
        "“alibi”; failed: “t5” (3 of 3 diverged); not run: “relative”. "
        "Partial: 18 of 21 trials done."
    )


def finding(shows: str = "difference", **changes: Any) -> dict[str, Any]:
    told = {
        "variants": ["none"],
        "than": "sinusoidal",
        "metric": "per",
        "coordinates": {},
        "factors": {},
    }
    told |= {name: changes.pop(name) for name in list(changes) if name in told}
    known = {"effect": 0.4, "low": 0.35, "high": 0.45, "bounds": None, "rates": None, "n": 5}
    more = {"of_items": None, "reason": "", "role": "predicts", "verdict": "supported"}
    return {"prediction": told, "shows": shows, **known, **more, **changes}


FOUND = [
    (
        finding(bounds=(0.1, None), of_items=0.25),
        "phone error rate: “none” − “sinusoidal” +0.40 edits/phone (95 % interval 0.35 to "
        "0.45), 25% of its variance from test items; predicted at least 0.1",
    ),
    (
        finding("ratio", metric="step_time", coordinates={"length": 32}, bounds=(0.3, 0.5)),
        "step time at length 32: “none” over “sinusoidal” 0.40 × (95 % interval 0.35 to 0.45); "
        "predicted 0.3 to 0.5",
    ),
    (
        finding(effect=None, low=None, high=None, reason="2 of 5 seeds failed"),
        "phone error rate: “none” − “sinusoidal” 2 of 5 seeds failed",
    ),
]


def test_what_was_found_for_a_prediction_is_told_with_its_interval() -> None:
    metrics = {"per": {"title": "phone error rate", "unit": "edits/phone"}}
    for found, words in FOUND:
        assert plain(finding_text(found, metrics)) == words


# --- examples


def test_examples_have_the_control_first_and_then_those_that_differ_most(folder: Any) -> None:
    labels = ["baseline", "near", "far", "farther", "nearest", "silent"]
    folder.ablation("position", labels, seeds=[0, 1])
    for label, worse in zip(labels, (0, 2, 3, 4, 1, 9), strict=True):
        for seed in (0, 1):
            outputs = [] if label == "silent" else [f"{label} {seed}", "W 1", "", "W 3"]
            said = [
                {"input": f"word {i}", "target": f"W {i}", "output": output}
                for i, output in enumerate(outputs)
            ]
            folder.record(label, seed, 0.2 + 0.1 * worse, examples=said)
    found = chapters.examples(gather(folder.root), "position")
    assert [each["input"] for each in found] == ["word 0", "word 1", "word 2"]
    names = [output["name"] for output in found[0]["outputs"]]
    assert names == ["baseline", "farther", "far", "near"]
    assert [output["text"] for output in found[0]["outputs"]] == [f"{name} 0" for name in names]
    assert all(output["is_right"] for output in found[1]["outputs"])
    assert not any(output["is_right"] for output in found[0]["outputs"])
