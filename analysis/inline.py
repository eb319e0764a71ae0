"""A drawing as part of a page: in the page's ink, with ids of its own, letters told once for all.

No style is left in its markup, so that a page may forbid every style but its own.
"""

from __future__ import annotations

import re
from html import escape

from analysis.style import INK

_LETTER = re.compile(r'<path id="(DejaVuSans[\w-]*)" d="([^"]*)"( transform="[^"]*")?/>')
_STYLE_SHEET = re.compile(r"<style.*?</style>", re.DOTALL)  # two words, which the root tag repeats
_NOT_DRAWN = re.compile(r'<!--.*?-->|<metadata>.*?</metadata>| xmlns(:\w+)?="[^"]*"', re.DOTALL)


def inline(text: str, prefix: str, alt: str, letters: dict[str, str]) -> str:
    """SVG as part of a page, with words for listeners; its letters go where all drawings' are."""
    text = _STYLE_SHEET.sub("", _NOT_DRAWN.sub("", text[text.index("<svg") :]))
    text = re.sub(r' style="([^"]*)"', lambda match: _attributes(match[1]), text)
    for name, path, transform in _LETTER.findall(text):
        letters[name] = f'<path id="{name}" d="{_tight(path)}"{transform}/>'
    text = _LETTER.sub("", text).replace("xlink:href", "href")
    text = re.sub(r' d="([^"]*)"', lambda match: f' d="{_tight(_rounded(match[1]))}"', text)
    text = re.sub(r' [xy]="[^"]*"|translate\([^)]*\)', lambda match: _rounded(match[0]), text)
    text = _own_ids(text, prefix, letters)
    text = re.sub(r"<(defs|g)>\s*</\1>", "", re.sub(r">\s+<", "><", text))
    told = f'role="img" aria-label="{escape(alt)}" stroke-linejoin="round"'
    return text.replace(INK, "currentColor").replace("<svg", f"<svg {told}", 1)


def alphabet(letters: dict[str, str]) -> str:
    """Every letter that a page's drawings use, for them to point at."""
    told = "".join(letters[name] for name in sorted(letters))
    return f'<svg class="letters" width="0" height="0" aria-hidden="true"><defs>{told}</defs></svg>'


def _attributes(style: str) -> str:
    pairs = [rule.split(":", 1) for rule in style.split(";") if ":" in rule]
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


def _rounded(text: str) -> str:
    """To a hundredth of a point, which nobody sees."""
    return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", text)


def _tight(path: str) -> str:
    """A path without the spaces that it does not need."""
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(path.split()))


def _own_ids(text: str, prefix: str, letters: dict[str, str]) -> str:
    """Ids that are pointed at, made this drawing's own; those that are not go."""
    wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', text)) - letters.keys()

    def kept(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in wanted else ""

    text = re.sub(r' id="([^"]*)"', kept, text)
    return re.sub(
        r'(href="|url\()#([^")]+)',
        lambda match: f"{match[1]}#{prefix}-{match[2]}" if match[2] in wanted else match[0],
        text,
    )
