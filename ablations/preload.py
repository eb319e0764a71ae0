"""Loaded once by the fork server for all workers: the code of jobs, and the tasks' data.

The server imports this module before any job is forked, so that every worker finds the tasks that
the driver announced already read. A task that cannot be read here is read by its worker, which
tells why: it may be of a module of the user's own, or its file has gone.
"""

from __future__ import annotations

import contextlib

import ablations.worker  # noqa: F401 (what jobs call)
from ablations.tasks.task import announced, load_task

for frozen in announced():
    with contextlib.suppress(Exception):
        load_task(frozen)
