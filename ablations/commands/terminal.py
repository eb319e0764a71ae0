"""Output and one-line error messages of all commands. Imports nothing heavy."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ablations.launch import Changed, failure
from ablations.signals import exit_code
from ablations.store.schema import RecordError
from ablations.store.words import in_one_line
from model.config import ConfigError, nearest

BAD_INPUT, FAILED = 2, 1
GONE = {
    "--arms": "every variant runs; name chapters, experiments or --claim ID to run less",
    "--until": "seeds are fixed beforehand; use --seeds N",
    "--budget": "stop with Ctrl-C at any time; the same command goes on from there",
    "--follow": "use `watch ablations status`",
    "--figure": "try prints what each token looked at most",
    "--tune": "use `ablations tune`, which keeps what it chooses; then `ablations run`",
    "--seed": "write it after the variant, as in norm/g2p:post:301",
    "--report": "use `ablations report` when the run has ended",
}
"""Options that were removed, and what replaces them."""
LONGEST = 500  # characters of a line: names of any length are allowed
PATIENCE = 1.0  # second of silence


class Parser(argparse.ArgumentParser):
    """Reports an unknown argument with the nearest known one."""

    def error(self, message: str) -> Any:
        if wrong := re.match(r"unrecognized arguments: (\S*)", message):
            word = wrong[1][:100]
            message = f"{self.prog} takes no '{word}'"
            if (option := word.partition("=")[0]) in GONE:
                message = f"{option} is gone: {GONE[option]}"
            elif word.startswith("-"):
                message = f"no option '{word}'. {nearest(word, self._option_string_actions)}"
        elif wrong := re.match(r"argument (\S+): invalid choice: '(.*)' \((.*)\)", message):
            option, word, choices = wrong.groups()
            known = re.findall(r"[\w-]+", choices.removeprefix("choose from "))
            message = f"{option}: no '{word[:100]}'. {nearest(word[:100], known)}"
        message = message.replace("the following arguments are required:", f"{self.prog} needs")
        raise ConfigError([message.removeprefix("argument ")])


def complain(line: str) -> None:
    """Print to standard error, if that can be written to."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def working(on: str) -> Iterator[None]:
    """Print what is being done if it takes longer than a second."""
    timer = threading.Timer(PATIENCE, complain, [f"{on} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_json(document: object) -> None:
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


def print_lines(lines: Iterable[str], indent: int = 4) -> None:
    """Print lines; on a terminal, wrap and indent long ones."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns
    for line in lines:
        line = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
        filled = textwrap.fill(line, width, subsequent_indent=" " * indent)
        print(filled if is_terminal else line)


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print aligned columns; cells wrap at the edge of a terminal, and never where it is piped."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.show_header = any(headings)
    for heading in headings:
        table.add_column(
            in_one_line(heading), justify="right" if heading in right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(in_one_line, row))
    width = None if sys.stdout is not None and sys.stdout.isatty() else 10_000
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    with console.capture() as made:
        console.print(table)
    print("\n".join(line.rstrip() for line in made.get().splitlines()))


def guarded(command: Callable[[], int]) -> int:
    """The exit code of a command: 2 for the user's mistakes, 1 for errors of the system.

    Any other exception is a bug and passes through. Output is flushed here, to notice a full disk
    or a closed pipe before the interpreter ends.
    """
    try:
        try:
            code = command()
        except SystemExit as stop:  # argparse has printed help
            code = int(stop.code or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except (ConfigError, RecordError, RecursionError) as error:
        complain("nested too deeply" if isinstance(error, RecursionError) else str(error))
        return BAD_INPUT
    except BrokenPipeError:
        pass
    except OSError as error:
        where = f": {str(error.filename)[:200]}" if error.filename else ""
        complain(" ".join(f"{error.strerror or error}{where}".split()))
    except Changed as error:
        complain(str(error))
    except (MemoryError, RuntimeError) as error:
        if failure("", error).status != "oom":
            raise
        complain("out of memory")
    except KeyboardInterrupt as stop:
        complain("Stopped. The same command goes on from here.")
        return exit_code(stop)
    finally:
        _flush_or_discard()
    return FAILED


def _flush_or_discard() -> None:
    """Send what a stream cannot pass on to /dev/null, so that the interpreter ends quietly."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone, or the stream is closed
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
