"""What trained models wrote beside what they should have: a few inputs, each answered by some."""

from __future__ import annotations

from typing import Any

from ablations.store.record import Record
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import printable, short

INPUTS, ARMS = 3, 4
LONGEST = 160  # characters


def examples(evidence: Evidence, question: str) -> list[dict[str, Any]]:
    """The first inputs, answered by the control and by those that differ most from it.

    All of one seed and one crossing: the first at which the control has answered.
    """
    chosen = _chosen(evidence, question)
    if not chosen:
        return []
    written = {
        name: {each.get("input"): each for each in record.examples}
        for name, record in chosen.items()
    }
    first, *others = written.values()
    shared = [text for text in first if text and all(text in each for each in others)]
    return [
        {
            "input": _shown(text),
            "target": _shown(first[text].get("target", "")),
            "outputs": [
                {
                    "name": short(name),
                    "text": _shown(held[text].get("output", "")),
                    "is_right": held[text].get("output") == first[text].get("target"),
                }
                for name, held in written.items()
            ],
        }
        for text in shared[:INPUTS]
    ]


def _chosen(evidence: Evidence, question: str) -> dict[str, Record]:
    """Label → record, the control's first."""
    loaded = evidence.loaded
    cells = listed(loaded.cells[loaded.cells["ablation"] == question])
    own = [cell for cell in cells if cell["trial"] in loaded.records and _answered(loaded, cell)]
    control = loaded.ablations[question]["control"]
    place = next(((c["across"], c["seed"]) for c in own if c["label"] == control), None)
    here = {
        c["label"]: loaded.records[c["trial"]] for c in own if (c["across"], c["seed"]) == place
    }
    rows = evidence.contrasts[evidence.contrasts["ablation"] == question]
    ranked = rows.reindex(rows["difference"].abs().sort_values(ascending=False).index)["label"]
    order = [label for label in dict.fromkeys([control, *ranked, *here]) if label in here]
    return {label: here[label] for label in order[:ARMS]}


def _answered(loaded: Any, cell: dict[str, Any]) -> bool:
    record = loaded.records[cell["trial"]]
    return bool(record.examples) and cell["outcome"] == record.status


def _shown(text: Any) -> str:
    return short(str(printable(str(text))), LONGEST)
