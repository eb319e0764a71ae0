"""Two arms that are one: 200 real trials of one control, split in two again and again.

Whatever is decided between them is decided by luck.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small import question

from ablations.plan.prediction import Prediction
from ablations.plan.wanted import make_plan
from ablations.store.results import Results
from ablations.store.seeds import DECIDING
from analysis.load import Loaded, load
from analysis.verdicts import verdicts

pytestmark = pytest.mark.soak
SPLITS, TRIALS = 2000, 200
ALLOWED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / SPLITS)
SECOND = {  # a trial takes about a second
    "task.words": 4000,
    "task.valid_words": 100,
    "task.test_words": 200,
    "model.d_model": 32,
    "model.depth": 1,
    "train.steps": 120,
    "train.batch_tokens": 525,
    "train.parts": 1,
    "train.schedule": {"name": "linear", "warmup": 20},
    "train.evaluations": 3,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """One control with 200 seeds, through the real sweep."""
    from ablations.sweep.launch.local import LocalLauncher
    from ablations.sweep.runner import run

    folder = tmp_path_factory.mktemp("same")
    file = folder / "same.yaml"
    file.write_text(json.dumps(question(variants={"with": {}}, settings=SECOND)))
    results = Results(folder / "run")
    seeds = list(range(1000, 1000 + TRIALS))
    with LocalLauncher(2, preload=["torch", "ablations.sweep.preload"]) as launcher:
        counts = run(make_plan([str(file)], "smoke", {}, seeds), results, launcher, "cpu")
    assert counts == Counter(ok=TRIALS)
    loaded = load(results.root)
    frame = loaded.readings  # of each record hundreds; a verdict here looks at these alone
    asked = frame["metric"].isin(["per", "trivial_per"]) & (frame["split"] == "test")
    return replace(loaded, readings=frame[asked])


def split(trained: Loaded, draw: np.random.Generator, shift: float, told: dict[str, Any]) -> Loaded:
    """Twenty of the trials as ten seeds of two arms, the second one moved by the shift."""
    (name, entry), *_ = trained.ablations.items()
    claim = {"id": "x.y", "statement": "It is.", "source": "them", "predicts": [told]}
    chosen = draw.permutation(sorted(set(trained.cells["trial"])))[: 2 * len(DECIDING)]
    places = {trial: ("ab"[i % 2], DECIDING[i // 2]) for i, trial in enumerate(chosen.tolist())}

    def placed(frame: pd.DataFrame) -> pd.DataFrame:
        mine = frame[frame["trial"].isin(places)].copy()
        mine["label"] = [places[trial][0] for trial in mine["trial"]]
        mine["seed"] = [places[trial][1] for trial in mine["trial"]]
        return mine

    cells, readings = placed(trained.cells), placed(trained.readings)
    moved = (readings["label"] == "b") & (readings["metric"] == "per")
    readings.loc[moved, "value"] = readings.loc[moved, "value"].astype(float) + shift
    planned = [
        {**entry["cells"][0], "label": label, "seed": seed, "trial": trial}
        for trial, (label, seed) in places.items()
    ]
    changed = {**entry, "claims": [claim], "control": "a", "cells": planned, "declared": 1}
    plan = {**trained.plan, "ablations": {name: changed}}
    return Loaded(trained.root, plan, trained.records, {}, cells, readings)


def words(trained: Loaded, prediction: Prediction, shift: float = 0.0) -> Counter[str]:
    draw = np.random.default_rng(0)
    told = prediction.to_dict()
    found = [verdicts(split(trained, draw, shift, told))[0].verdict for _ in range(SPLITS)]
    return Counter(found)


def test_one_arm_is_rarely_called_better_than_itself(trained: Loaded) -> None:
    better = Prediction(word="better", of=("b",), than="a", metric="per", kind="level")
    found = words(trained, better)
    print(found)
    assert found["undecided"] > 0
    assert (found["supported"] + found["refuted"]) / SPLITS < ALLOWED


def test_an_arm_moved_by_the_margin_is_rarely_called_equal(trained: Loaded) -> None:
    spread = float(trained.readings.query("metric == 'per' and split == 'test'")["value"].std())
    equal = Prediction(
        word="equal", of=("b",), than="a", metric="per", kind="level", within=2 * spread,
        because="twice the spread of seeds",
    )  # fmt: skip
    at_the_margin = words(trained, equal, shift=2 * spread)
    same = words(trained, equal)
    print(at_the_margin, same)
    assert (at_the_margin["supported"] + at_the_margin["refuted"]) / SPLITS < ALLOWED
    assert same["supported"] / SPLITS > 0.5
