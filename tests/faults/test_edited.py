"""Code that is edited while a sweep runs: what is kept was computed by the code that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from processes import HERE, start
from watching import LONG

from ablations.store.stamp import PROJECT, ROOT

DRIVER = """
import os
import sys
from pathlib import Path

os.chdir(sys.argv[2])
part = Path("model/norm.py")
written = part.read_text()
part.write_text(written.replace("config.eps, elementwise", "2 * config.eps, elementwise", 1))
import ablations.worker  # as it is while the file says something else

part.write_text(written)
from in_process import InProcess
from ablations.plan.wanted import make_plan
from ablations.store.results import Results
from ablations.launch import Changed
from ablations.runner import run

results = Results("out")
try:
    print(run(make_plan([sys.argv[1]], "smoke", {}, [0]), results, InProcess(), "cpu"))
except Changed as error:
    print(error)
print(len([*results.trials.iterdir()]), "records")
"""


def test_code_that_was_edited_and_put_back_before_the_plan_trains_nothing(
    tmp_path: Path, ask: Callable[..., str], drivers: list[subprocess.Popen[str]]
) -> None:
    for package in PROJECT:
        shutil.copytree(ROOT / package, tmp_path / package)
    path = os.pathsep.join([str(tmp_path), str(HERE.parent / "ablations")])
    question = ask(measures=[])
    driver = start(drivers, "-c", DRIVER, question, str(tmp_path), path=path)
    out, err = driver.communicate(timeout=LONG)
    assert out.startswith("model/norm.py changed since this sweep began"), err
    assert out.endswith("0 records\n")
