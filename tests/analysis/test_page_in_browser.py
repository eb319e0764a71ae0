"""In a browser the page is quiet, asks nobody, fits every window and runs nobody else's script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest

from analysis import report
from analysis.evidence import gather

WIDTHS = [390, 800, 1440, 1600]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    program = chromium.find()
    if program is None:
        pytest.skip("no Chromium here: with Debian's chromium the page is tried in a browser")
    found = chromium.Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


def complaints(browser: chromium.Browser) -> list[Any]:
    logged = browser.named("Log.entryAdded") + browser.named("Runtime.exceptionThrown")
    return logged + browser.named("Runtime.consoleAPICalled")


def requests(browser: chromium.Browser) -> list[str]:
    return [each["request"]["url"] for each in browser.named("Network.requestWillBeSent")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_complains_and_nothing_but_the_file_is_asked_for(
    browser: chromium.Browser, shown: Path, dark: bool
) -> None:
    browser.open(shown, dark=dark)
    assert complaints(browser) == []
    assert requests(browser) == [shown.as_uri()]
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == dark


def column(browser: chromium.Browser, index: int) -> list[str]:
    rows = "[...document.querySelectorAll('#claims-table tbody tr')]"
    shown: list[str] = browser.run(
        f"{rows}.filter(row => row.offsetHeight).map(row => row.cells[{index}].innerText)"
    )
    return shown


def test_a_heading_sorts_its_column_up_and_then_down_from_the_keyboard_too(
    browser: chromium.Browser, shown: Path
) -> None:
    browser.open(shown)
    before = column(browser, 4)
    head = "document.querySelectorAll('#claims-table thead th')[4]"
    browser.run(f"{head}.querySelector('button').click()")
    up = list(map(int, column(browser, 4)))
    assert up == sorted(map(int, before))
    assert len(set(up)) > 1
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter")
    assert list(map(int, column(browser, 4))) == up[::-1]
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    assert complaints(browser) == []


def test_verdicts_sort_by_what_they_mean(browser: chromium.Browser, shown: Path) -> None:
    browser.open(shown)
    browser.run("document.querySelector('#claims-table thead button').click()")
    found = [text.split("\n")[0] for text in column(browser, 0)]
    order = ["supported", "refuted", "undecided", "not run"]
    assert found == sorted(found, key=order.index)
    assert len(set(found)) > 1


@pytest.mark.parametrize("kind", ["tile", "dot", "badge"])
def test_a_verdict_has_its_colour_wherever_it_stands(
    browser: chromium.Browser, shown: Path, kind: str
) -> None:
    browser.open(shown)
    probe = (
        "(word => {const mark = document.createElement('span'); mark.className = word; "
        "document.body.append(mark); return getComputedStyle(mark).backgroundColor})"
    )
    blue, vermilion = "rgb(0, 114, 178)", "rgb(192, 79, 0)"
    found = [browser.run(f"{probe}('{kind} {word}')") for word in ("supported", "refuted")]
    assert found == [blue, vermilion]
    rest = [browser.run(f"{probe}('{kind} {word}')") for word in ("undecided", "not-run")]
    assert not {blue, vermilion} & set(rest)


def test_words_and_verdicts_filter_the_claims(browser: chromium.Browser, shown: Path) -> None:
    browser.open(shown)
    everyone = column(browser, 1)
    change = "document.getElementById('filter').dispatchEvent(new Event('input'))"
    browser.run(f"document.getElementById('find').value = 'POSITION.needed'; {change}")
    found = column(browser, 1)
    assert found == [text for text in everyone if "position.needed" in text]
    assert browser.run("document.getElementById('count').textContent") == (
        f"{len(found)} of {len(everyone)}"
    )
    browser.run(f"document.getElementById('find').value = ''; {change}")
    browser.run(f"document.querySelector('#filter [value=undecided]').checked = false; {change}")
    verdicts = [text.split("\n")[0] for text in column(browser, 0)]
    assert verdicts
    assert "undecided" not in verdicts
    hidden = browser.run("document.querySelector('#claims-table tr[data-verdict=undecided]').id")
    browser.run(f"location.hash = {hidden!r}")
    browser.run("new Promise(done => setTimeout(done))")  # the page hears of it after this
    assert column(browser, 1) == everyone, "a link to a claim that is filtered away shows it"


def test_without_script_everything_is_in_view_but_the_controls(
    browser: chromium.Browser, shown: Path
) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(shown)
        assert browser.run("document.getElementById('filter').offsetHeight") == 0
        assert browser.run("document.querySelectorAll('thead button').length") == 0
        rows = "[...document.querySelectorAll('tbody tr, figure, .answer')]"
        assert browser.run(f"{rows}.filter(each => !each.offsetHeight).length") == 0
        assert browser.run(f"{rows}.length") > 30
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_leaves_the_window(browser: chromium.Browser, shown: Path, width: int) -> None:
    browser.open(shown, width)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    outside = """[...document.querySelectorAll('main *')]
        .filter(each => !each.closest('.unseen, .letters, svg, thead') && each.offsetHeight)
        .filter(each => { const box = each.getBoundingClientRect();
            return box.left < -0.5 || box.right > innerWidth + 0.5; })
        .map(each => each.outerHTML.slice(0, 120))"""
    assert browser.run(outside) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_verdict_of_every_table_is_in_view(
    browser: chromium.Browser, shown: Path, width: int
) -> None:
    browser.open(shown, width)
    lost = """[...document.querySelectorAll('td.verdict')].filter(each => each.innerText.trim())
        .filter(each => { const box = each.getBoundingClientRect();
            return !box.width || !box.height || box.left < 0 || box.right > innerWidth
                || each.scrollWidth > each.clientWidth + 1; })
        .map(each => each.outerHTML.slice(0, 120))"""
    assert browser.run(lost) == []
    told = "[...document.querySelectorAll('td.verdict')].filter(each => each.innerText.trim())"
    assert browser.run(f"{told}.length") > 10


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_lies_on_anything_else(browser: chromium.Browser, shown: Path, width: int) -> None:
    browser.open(shown, width)
    overlaps = """(() => {
        const wanted = 'h1, h2, h3, h4, p, li, dt, dd, td, th, svg, figcaption, summary, nav.side';
        const all = [...document.querySelectorAll(wanted)]
            .filter(each => !each.closest('.unseen, .letters') && each.getClientRects().length)
            .filter(each => !each.closest('nav') || each.matches('nav.side'))
            .filter(each => each.checkVisibility())  // not what is folded away
            .filter(each => getComputedStyle(each.closest('thead') || each).clipPath === 'none')
            .map(each => [each, each.getBoundingClientRect()])
            .filter(([each, box]) => box.width && box.height);
        const found = [];
        all.forEach(([one, a], i) => all.slice(i + 1).forEach(([two, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 1 && down > 1 && !one.contains(two) && !two.contains(one))
                found.push(one.outerHTML.slice(0, 80) + ' | ' + two.outerHTML.slice(0, 80));
        }));
        return found.slice(0, 5);
    })()"""
    assert browser.run(overlaps) == []


def test_the_contents_stay_in_view_where_there_is_room(
    browser: chromium.Browser, shown: Path
) -> None:
    browser.open(shown, 1440)
    browser.run("document.getElementById('downloads').scrollIntoView()")
    top = "document.querySelector('nav.side a').getBoundingClientRect().top"
    assert 0 < browser.run(top) < 200
    browser.resize(800)
    assert browser.run("document.querySelector('nav.side').offsetHeight") == 0
    assert browser.run("document.querySelector('details.top').offsetHeight") > 0


def test_the_first_key_leads_past_the_contents(browser: chromium.Browser, shown: Path) -> None:
    browser.open(shown)
    browser.press("Tab")
    assert browser.run("document.activeElement.getAttribute('href')") == "#summary"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0


def test_it_prints_whole_figures(browser: chromium.Browser, shown: Path) -> None:
    browser.open(shown, 800)
    printed = browser.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
    assert printed.startswith("JVBER")  # %PDF
    browser.ask("Emulation.setEmulatedMedia", media="print")
    try:
        kept = "[...document.querySelectorAll('figure')].map(e => getComputedStyle(e).breakInside)"
        assert set(browser.run(kept)) == {"avoid"}
        tallest = (
            "Math.max(...[...document.querySelectorAll('figure svg')].map(e => e.clientHeight))"
        )
        assert browser.run(tallest) <= 22 / 2.54 * 96 + 1
        assert browser.run("document.getElementById('filter').offsetHeight") == 0
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="")


STEALING = [
    "<img src=x onerror=\"document.title='stolen'\">",
    "</script><script>document.title='stolen'</script>",
    "</style></code><svg onload=\"document.title='stolen'\">",
    '" onfocus="document.title=\'stolen\'" autofocus x="',
    "{{ 7 * 7 }}\x02</code>\x03",
]


def test_names_that_try_to_run_do_not(browser: chromium.Browser, folder: Any) -> None:
    for name in STEALING:
        folder.ablation(
            name,
            [f"control {name}", name],
            question=name,
            task=name,
            overrides=[name],
            claims=[folder.claimed(name, "worse", name, than=f"control {name}")],
            seeds=[0, 1],
        )
        wrote = [{"input": name, "target": name, "output": name}]
        data = {"sha256": "0", "files": [], "source": name, "licence": name, "size": {name: name}}
        folder.record(f"control {name}", 0, 0.2, examples=wrote, data=data)
        folder.record(name, 0, 0.3, examples=wrote, data=data)
        folder.record(name, 1, status="error", reason=name)
    *_, page = report.write(gather(folder.root))
    browser.open(page)
    assert browser.run("document.title") == "Attention, Ablated: smoke"
    assert complaints(browser) == []
    assert requests(browser) == [page.as_uri()]
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.images.length") == 0
    assert STEALING[0] in browser.run("document.body.innerText")
    inside = folder.root / "figures"
    assert all(path.resolve().is_relative_to(inside) for path in inside.rglob("*"))


def test_the_policy_refuses_a_script_that_got_in_after_all(
    browser: chromium.Browser, shown: Path
) -> None:
    browser.open(shown)
    browser.run(
        """(() => { const late = document.createElement('script');
        late.textContent = 'window.stolen = true'; document.body.append(late);
        const image = new Image(); image.src = 'http://localhost:9/x.png';
        document.body.append(image);
        document.body.setAttribute('style', 'color: red'); })()"""
    )
    assert browser.run("window.stolen === undefined")
    assert len(complaints(browser)) == 3, "script, picture and style are each refused"
    stopped = [each["blockedReason"] for each in browser.named("Network.loadingFailed")]
    assert stopped == ["csp"], "and the picture's address was never called"
