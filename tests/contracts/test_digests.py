"""The data of every task is what it was, byte by byte: another digest orphans every record on it.

Where data really has changed, name in the commit whose numbers move, and write the new one here.
"""

from __future__ import annotations

import pytest
from task_subjects import task_subject

from ablations.tasks import TASK

DIGESTS = {
    "copy": "9e6e846364a0",
    "g2p": "24acdaad93b5",
    "listops": "bff5697ea52d",
    "pair": "0d813ad7e8a2",
    "recall": "befcd5a0b564",
    "reverse": "8c236bbf2042",
    "sort": "3b12132cf44c",
    "text": "e9ae40400c7c",
    "translation": "d877c2247eff",
}


@pytest.mark.parametrize("name", TASK.parts)
def test_the_data_of_a_task_has_not_moved(name: str) -> None:
    assert name in DIGESTS, (
        f"write the digest of {name} in DIGESTS of tests/contracts/test_digests.py"
    )
    assert task_subject(name).task.digest()[:12] == DIGESTS[name]
