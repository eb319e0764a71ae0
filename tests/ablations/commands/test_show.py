"""show and try: a trial by experiment, variant and seed, or by its id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small import plan_document

from ablations.commands.show import trial_of
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from model.config import ConfigError

CONFIG = {"model": {"name": "m"}, "task": {}, "train": {}}


def trial(number: int) -> str:
    return f"{number:012x}"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Seeds 200 to 202 of two variants, at two depths where they are crossed; seed 200 waits."""
    results = Results(tmp_path / "out")
    plain = [("with", {}), ("none, causal", {})]
    crossed = [("post", {"depth": "6"}), ("post", {"depth": "12"})]

    def cells(variants: list[tuple[str, dict[str, str]]], first: int) -> list[dict[str, object]]:
        return [
            {"variant": label, "factors": levels, "seed": 200 + n, "id": trial(start + n)}
            for start, (label, levels) in zip((first, first + 10), variants, strict=True)
            for n in range(3)
        ]

    tables = {"blind": cells(plain, 0), "norm": cells(crossed, 100)}
    plan = plan_document({**tables, "norm [model.d_model=32]": cells(crossed, 200)})
    plan["experiments"]["norm [model.d_model=32]"]["name"] = "norm"
    results.write_plan(plan)
    for entry in plan["experiments"].values():
        for cell in entry["trials"]:
            if cell["seed"] > 200:
                at = {"step": 4}
                measurements = [Measurement("loss", "nats/token", 0.5, "test", at)]
                results.write(Record(cell["id"], "ok", CONFIG, measurements=measurements))
    return results


def test_a_trial_is_found_by_what_people_call_it(results: Results) -> None:
    for word, number in [
        ("blind:with", 1),  # the first that is run
        ("blind:with:202", 2),
        ("blind:none, causal", 11),
        ("blind:'none, causal':202", 12),
        ("norm:post:6", 101),
        ("norm:post:12:202", 112),
        ("norm [model.d_model=32]:post:6", 201),
        ("00000000000b", 11),
    ]:
        assert trial_of(word, results) == trial(number), word


def test_who_is_not_found_is_told_in_one_line_who_there_is(results: Results) -> None:
    for word, says in [
        ("blnd:with", "no experiment 'blnd' in {}. Did you mean 'blind'?"),
        ("blind:wth", "no variant 'wth' in blind. Did you mean 'with'?"),
        ("blind:zzz", "no variant 'zzz' in blind. Choose from: with, 'none, causal'."),
        ("blind:with:7", "blind:with has no seed 7: it has 200, 201, 202"),
        ("blind:with:200", "blind:with seed 200 has not been run in {} yet"),
        ("norm:post", "no variant 'post' in norm. Did you mean 'post:6'?"),
        ("00000000000", "4 trials '00000000000…' in {}"),
        ("0f0f0f", "no trial '0f0f0f…' in {}"),
        ("blind", "'blind': a trial is EXPERIMENT:VARIANT, such as norm/g2p:post, or"),
    ]:
        with pytest.raises(ConfigError) as refused:
            trial_of(word, results)
        (line,) = refused.value.problems
        assert line.startswith(says.format(results.root)), line


def test_a_trial_is_shown_with_settings_and_measurements(
    results: Results, say: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, _ = say("show", "blind:with:202", "--results", str(results.root))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{trial(2)} ok"
    assert "  name: m" in lines
    assert ["loss", "test", "0.5", "nats/token", "step=4"] in [line.split() for line in lines]
    assert lines[-1].endswith(str(results.path(trial(2))))
