"""In a browser the page is quiet, asks nobody, fits every window and runs nobody else's script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest

from analysis import report
from analysis.claims import VERDICTS
from analysis.evidence import gather

pytestmark = pytest.mark.soak
WIDTHS = [390, 800, 1440]


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


def column(browser: chromium.Browser, index: int) -> list[str]:
    rows = "[...document.querySelectorAll('#claims-table tbody tr')]"
    shown: list[str] = browser.run(
        f"{rows}.filter(row => row.offsetHeight).map(row => row.cells[{index}].innerText)"
    )
    return shown


def all_images_loaded(browser: chromium.Browser) -> bool:
    images = "[...document.images].map(each => { each.loading = 'eager'; return each.decode(); })"
    browser.run(f"Promise.all({images}).then(() => true)")
    return bool(browser.run("[...document.images].every(each => each.naturalWidth > 50)"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_complains_and_nothing_but_the_files_beside_it_is_asked_for(
    browser: chromium.Browser, shown: Path, dark: bool
) -> None:
    browser.open(shown, dark=dark)
    assert all_images_loaded(browser)
    assert complaints(browser) == []
    asked = {each["request"]["url"] for each in browser.named("Network.requestWillBeSent")}
    beside = shown.parents[1].as_uri()
    assert all(url == shown.as_uri() or url.startswith(f"{beside}/figures/") for url in asked)
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == dark


def test_a_heading_sorts_its_column_up_and_down_from_the_keyboard_too(
    browser: chromium.Browser, shown: Path
) -> None:
    browser.open(shown)
    head = "document.querySelectorAll('#claims-table thead th')[4]"
    browser.run(f"{head}.querySelector('button').click()")
    up = list(map(int, column(browser, 4)))
    assert up == sorted(up)
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter")
    assert list(map(int, column(browser, 4))) == up[::-1]
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    browser.run("document.querySelector('#claims-table thead button').click()")
    found = [words.split("\n")[0] for words in column(browser, 0)]
    assert found == sorted(found, key=VERDICTS.index)


def test_words_and_verdicts_filter_the_claims(browser: chromium.Browser, shown: Path) -> None:
    browser.open(shown)
    everyone = column(browser, 1)
    change = "document.getElementById('filter').dispatchEvent(new Event('input'))"
    browser.run(f"document.getElementById('find').value = 'POSITION.needed'; {change}")
    assert column(browser, 1) == [words for words in everyone if "position.needed" in words]
    browser.run(f"document.getElementById('find').value = ''; {change}")
    browser.run(f"document.querySelector('#filter [value=undecided]').checked = false; {change}")
    assert "undecided" not in [words.split("\n")[0] for words in column(browser, 0)]
    hidden = browser.run("document.querySelector('#claims-table tr[data-verdict=undecided]').id")
    browser.run(f"location.hash = {hidden!r}")
    browser.run("new Promise(done => setTimeout(done))")  # the page hears of it after this
    assert column(browser, 1) == everyone, "a link to a claim that is filtered away shows it"


def test_without_script_everything_is_in_view(browser: chromium.Browser, shown: Path) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(shown)
        assert browser.run("document.getElementById('filter').offsetHeight") == 0
        rows = "[...document.querySelectorAll('tbody tr, figure, .answer')]"
        assert browser.run(f"{rows}.filter(each => !each.offsetHeight).length") == 0
        assert browser.run(f"{rows}.length") > 30
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_leaves_the_window_and_nothing_lies_on_anything_else(
    browser: chromium.Browser, shown: Path, width: int
) -> None:
    browser.open(shown, width)
    assert all_images_loaded(browser)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    outside = """[...document.querySelectorAll('main *')]
        .filter(each => !each.closest('.unseen, thead') && each.offsetHeight)
        .filter(each => { const box = each.getBoundingClientRect();
            return box.left < -0.5 || box.right > innerWidth + 0.5; })
        .map(each => each.outerHTML.slice(0, 120))"""
    assert browser.run(outside) == []
    overlaps = """(() => {
        const wanted = 'h1, h2, h3, h4, p, li, dt, dd, td, th, img, figcaption, summary, nav.side';
        const all = [...document.querySelectorAll(wanted)]
            .filter(each => !each.closest('.unseen') && each.getClientRects().length)
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
    assert all_images_loaded(browser)
    assert browser.run("document.title") == "Attention, Ablated: smoke"
    assert complaints(browser) == []
    assert browser.run("document.scripts.length") == 1
    assert STEALING[0] in browser.run("document.body.innerText")


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
