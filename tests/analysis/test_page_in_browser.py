"""In a browser the page is quiet, fits every window, sorts and filters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import VERDICTS

pytestmark = pytest.mark.soak
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--allow-file-access-from-files",
         "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"]  # fmt: skip
FRAME = """<title>waiting</title><iframe src="index.html" width="{width}" height="900"></iframe>
<script>
onload = async () => {{
  const view = document.querySelector("iframe").contentWindow, doc = view.document;
  const images = [...doc.images];
  images.forEach((each) => {{ each.loading = "eager"; }});
  await Promise.all(images.map((each) => each.decode()));
  const rows = () => [...doc.querySelectorAll("#claims-table tr[data-verdict]")]
    .filter((row) => row.offsetHeight);
  const column = (index) => rows().map((row) => row.cells[index].innerText);
  const byChapter = (index) => [...doc.querySelectorAll("#claims-table tbody")].map(
    (body) => rows().filter((row) => row.parentNode === body)
      .map((row) => row.cells[index].innerText));
  const found = (() => {{ {script} }})();
  document.title = JSON.stringify(found);
}};
</script>"""


def shows(page: Path, script: str, width: int = 1440) -> tuple[Any, list[str]]:
    """What a script finds out in the page, in a frame of this width, and what the browser says."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: with Debian's chromium the page is tried in a browser")
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width, script=script), encoding="utf-8")
    done = subprocess.run([CHROMIUM, *FLAGS, frame.as_uri()], capture_output=True, text=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(unescape(title[1])), said


def test_nothing_complains_and_every_picture_is_shown(shown: Path) -> None:
    sizes, said = shows(shown, "return images.map((each) => each.naturalWidth);")
    assert said == []
    assert len(sizes) > 5
    assert min(sizes) > 50


def test_a_heading_sorts_its_column_in_each_chapter_up_and_down(shown: Path) -> None:
    script = """const head = doc.querySelectorAll('#claims-table thead th')[4];
        head.querySelector('button').click(); const up = byChapter(4);
        head.querySelector('button').click(); const down = byChapter(4);
        const sorted = head.getAttribute('aria-sort');
        doc.querySelector('#claims-table thead button').click();
        return [up, down, sorted, byChapter(0)];"""
    (up, down, sorted_, words), _ = shows(shown, script)
    assert sum(map(len, up)) > 3
    assert [list(map(int, each)) for each in up] == [sorted(map(int, each)) for each in up]
    assert [list(map(int, each)) for each in down] == [
        sorted(map(int, each), reverse=True) for each in down
    ]
    assert sorted_ == "descending"
    for chapter in words:
        verdicts = [each.split("\n")[0] for each in chapter]
        assert verdicts == sorted(verdicts, key=VERDICTS.index)


def test_words_and_verdicts_filter_the_claims(shown: Path) -> None:
    script = """const all = column(1), find = doc.getElementById('find');
        const change = () => doc.getElementById('filter').dispatchEvent(new view.Event('input'));
        find.value = 'POSITION.needed'; change(); const some = column(1);
        find.value = ''; change();
        doc.querySelector('#filter [value=undecided]').checked = false; change();
        return [all, some, column(0)];"""
    (everyone, some, rest), _ = shows(shown, script)
    assert some == [words for words in everyone if "position.needed" in words]
    assert "undecided" not in [words.split("\n")[0] for words in rest]


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_nothing_leaves_the_window(shown: Path, width: int) -> None:
    script = """return [doc.documentElement.scrollWidth - view.innerWidth,
        ...[...doc.querySelectorAll('main *')]
        .filter(each => !each.closest('.unseen, thead') && each.offsetHeight)
        .filter(each => { const box = each.getBoundingClientRect();
            return box.left < -0.5 || box.right > view.innerWidth + 0.5; })
        .map(each => each.outerHTML.slice(0, 120))];"""
    (beyond, *outside), _ = shows(shown, script, width)
    assert beyond <= 0
    assert outside == []
