"""The ledger: every claim that is tested, with its statement and its source, each once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ablations.plan.source import FOLDER, read_yaml
from model.config import ConfigError, nearest


@dataclass(frozen=True)
class Claim:
    """What somebody says about attention, put so that a measurement can decide it."""

    id: str
    statement: str
    source: str


@cache
def ledger() -> dict[str, Claim]:
    """Id → claim; ConfigError names the line of one that does not say what, or who says it."""
    source = read_yaml(FOLDER / "claims.yaml")
    found, problems = {}, []
    for name, entry in source.values.items():
        words = entry if isinstance(entry, dict) else {}
        told = all(isinstance(text, str) and text.strip() for text in words.values())
        if set(words) != {"statement", "source"} or not told:
            problems.append(f"{source.place(name)}: expected a statement and a source")
            continue
        found[name] = Claim(name, **words)
    if problems:
        raise ConfigError(problems)
    return found


def find_claim(name: str) -> Claim:
    if name not in ledger():
        raise ConfigError([f"no claim '{name[:100]}'. {nearest(name[:100], ledger())}"])
    return ledger()[name]
