"""Numbers that one version of the code took are never averaged with another version's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ablations.store.stamp import Stamp, changed


def other_code(
    stamps: Mapping[str, Stamp], is_changed: Callable[[Stamp], Any] = changed
) -> set[str]:
    """The trials whose stamp contradicts that of others, so that they cannot stand beside them.

    Two stamps contradict each other where they have one file with two digests. Then those that are
    of the code here count; where none is, the version that most of them have.
    """
    digests: dict[str, set[str]] = {}
    for made_by in stamps.values():
        for file, digest in made_by.items():
            digests.setdefault(file, set()).add(digest)
    disputed = sorted(file for file, found in digests.items() if len(found) > 1)
    if not disputed:
        return set()
    versions = {
        trial: tuple(made_by.get(file) for file in disputed) for trial, made_by in stamps.items()
    }
    of_now = {trial for trial, made_by in stamps.items() if not is_changed(made_by)}
    if of_now:
        return stamps.keys() - of_now
    most, _ = Counter(versions.values()).most_common(1)[0]
    return {trial for trial, version in versions.items() if version != most}
