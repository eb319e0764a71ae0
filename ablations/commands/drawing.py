"""What a model looked at, drawn as shades: in a terminal, or as SVG."""

from __future__ import annotations

import html

from rich.cells import cell_len, set_cell_size

from ablations.commands.answer import Reply

SHADES = " ░▒▓█"


def drawn(reply: Reply, columns: int = 80) -> str:
    """The weights, one line for each written token; broken where the terminal ends."""
    if reply.weights is None:
        return "This model attends to nothing."
    most = _most(reply.weights)
    margin = max(map(cell_len, reply.written)) + 1
    cell = max(map(cell_len, reply.read)) + 1
    fit = max(1, (columns - margin) // cell)
    lines = []
    for first in range(0, len(reply.read), fit):
        some = slice(first, first + fit)
        header = "".join(set_cell_size(symbol, cell) for symbol in reply.read[some])
        lines.append(" " * margin + header)
        for token, row in zip(reply.written, reply.weights, strict=True):
            shades = (_shade(weight / most) * (cell - 1) for weight in row[some])
            lines.append(" " * (margin - 1 - cell_len(token)) + f"{token} " + " ".join(shades))
        lines.append("")
    bands = " ".join(f"{SHADES[k]} {most * k / len(SHADES):.2g}" for k in range(1, len(SHADES)))
    return "\n".join(line.rstrip() for line in [*lines, f"{bands} to {_legend(reply, most)}"])


def picture(reply: Reply, size: int = 26) -> str:
    """The same as SVG, darker for more weight."""
    assert reply.weights is not None
    most, letter = _most(reply.weights), size * 0.3  # how wide a letter is, about
    legend = f"white 0 to black {_legend(reply, most)}"
    longest = max(map(cell_len, reply.read))
    top = (max(longest, 3) + 1) * letter
    left = (max(map(cell_len, reply.written)) + 2) * letter
    width = round(max(left + (len(reply.read) + 1) * size, (0.75 * len(legend) + 4) * letter))
    height = round(top + (len(reply.written) + 1) * size)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="{size * 0.45}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, symbol in enumerate(reply.read):
        x, y = left + (column + 0.5) * size, top - letter
        how = 'text-anchor="middle"'
        if longest > 3:  # upright they would overlap
            x += letter / 2
            how = f'transform="rotate(-90 {x:.1f} {y:.1f})"'
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {how}>{html.escape(symbol)}</text>')
    for row, (token, line) in enumerate(zip(reply.written, reply.weights, strict=True)):
        y = top + row * size
        parts.append(
            f'<text x="{left - letter:.1f}" y="{y + 0.65 * size:.1f}" text-anchor="end">'
            f"{html.escape(token)}</text>"
        )
        for column, weight in enumerate(line):
            grey = round(255 * (1 - weight / most))
            parts.append(
                f'<rect x="{left + column * size:.1f}" y="{y:.1f}" width="{size}" '
                f'height="{size}" fill="rgb({grey},{grey},{grey})" stroke="#ddd"/>'
            )
    place = f'x="{2 * letter:.1f}" y="{height - 0.35 * size:.1f}"'
    return "\n".join([*parts, f"<text {place}>{html.escape(legend)}</text>", "</svg>"]) + "\n"


def _most(weights: list[list[float]]) -> float:
    return max(map(max, weights))


def _shade(share: float) -> str:
    return SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))]


def _legend(reply: Reply, most: float) -> str:
    return f"{most:.2g}, the largest weight ({reply.where}, mean over heads)"
