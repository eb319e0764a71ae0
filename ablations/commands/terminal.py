"""A command line whose mistakes are answered in one line.

Imports no torch: every command of every package reads its words here first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from model.config import ConfigError, nearest

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
PATIENCE = 1.0  # second of silence
NO_MEMORY = re.compile(r"out of memory|can't allocate memory", re.IGNORECASE)  # in torch's words


class Parser(argparse.ArgumentParser):
    """A wrong word is answered with the nearest right one."""

    def error(self, message: str) -> Any:
        actions = {option: each for each in self._actions for option in each.option_strings}
        if wrong := re.match(r"unrecognized arguments: (.+)", message):
            word = wrong[1].split()[0][:100]
            message = f"{self.prog} takes no '{word}'"
            if word.startswith("-"):
                message = f"no option '{word}'. {nearest(word, actions)}"
        elif wrong := re.match(r"argument (\S+): invalid choice: '(.*?)' ", message):
            option, word = wrong[1], wrong[2][:100]
            message = f"{option}: no '{word}'. {nearest(word, actions[option].choices or ())}"
        message = message.replace("the following arguments are required:", f"{self.prog} needs")
        message = re.sub(r"argument (--\w+): (?=\1)", "", message)  # which the type has said too
        raise ConfigError([message.removeprefix("argument ")])


def complain(line: str) -> None:
    """To standard error where there is one that takes it, and never to standard output."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def working(on: str) -> Iterator[None]:
    """Where this takes longer than people wait in silence, tell them what is being done."""
    told = threading.Timer(PATIENCE, complain, [f"{on} …"])
    told.daemon = True
    told.start()
    try:
        yield
    finally:
        told.cancel()


def guarded(main: Callable[[], int]) -> int:
    """The exit code of `main`; what a command cannot help is one line, and never a traceback.

    Mistakes of the user's (a ConfigError) are for `main` to answer; every other exception is a
    fault of ours and goes through. What was printed is flushed here, so that a full disk or a
    closed pipe is met here too and not when the interpreter ends.
    """
    try:
        return _finished(main)
    except BrokenPipeError:
        return FAILED
    except OSError as error:
        where = f": {str(error.filename)[:200]}" if error.filename else ""
        complain(" ".join(f"{error.strerror or error}{where}".split()))
        return FAILED
    except MemoryError:
        complain("out of memory")
        return FAILED
    except RecursionError:
        complain("nested too deeply")
        return BAD_INPUT
    except RuntimeError as error:
        if not NO_MEMORY.search(str(error)):
            raise
        complain("out of memory")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        for stream in (sys.stdout, sys.stderr):
            _let_go(stream)


def _finished(main: Callable[[], int]) -> int:
    """With everything printed that is to be printed."""
    try:
        code = main()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            complain(stop.code)
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _let_go(stream: TextIO | None) -> None:
    """What a stream cannot pass on goes nowhere, so that the interpreter ends without a word."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):  # whoever listened has gone, or the stream is closed
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
