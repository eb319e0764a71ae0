"""What the fork server loads once for all workers: the code of a job, and the tasks' data.

The server imports this module before any job is forked, so that every worker finds the tasks that
the driver announced already read.
"""

from __future__ import annotations

import contextlib

import ablations.sweep.worker  # noqa: F401 (what jobs call)
from ablations.tasks.cache import announced, load_task
from model.config import ConfigError

for frozen in announced():
    with contextlib.suppress(ConfigError):  # a task of a user's own module is read by its worker
        load_task(frozen)
