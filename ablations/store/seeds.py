"""Which seeds are for what: none that chose a setting is reported."""

from __future__ import annotations

TUNING = (100, 101)
"""Of trials that choose among settings; nothing of theirs is reported."""
DECIDING = tuple(range(300, 310))
"""Of what is reported; a run takes the first so many. Nobody had seen them when the questions,
their metrics and their margins were written."""
