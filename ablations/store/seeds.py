"""Which seeds are for what: none that chose a setting, or a question, decides anything."""

from __future__ import annotations

TUNING = (100, 101)
"""Of trials that choose among settings; nothing of theirs is reported."""
DECIDING = tuple(range(200, 210))
"""Of verdicts, in the order in which they are looked at. Those below were seen while questions
were made; those beyond would let someone go on until the answer is the one they like."""
