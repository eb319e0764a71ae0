"""A command line whose mistakes are answered in one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

from model.config import ConfigError, nearest


def print_commands(program: str, words: str, meanings: Mapping[str, str]) -> None:
    """What to type where no command was named."""
    print(f"{program} COMMAND {words}\n")
    width = max(map(len, meanings)) + 2
    for name, meaning in meanings.items():
        print(f"  {name:<{width}}{meaning}")
    print(f"\n{program} COMMAND --help lists a command's options.")


class Parser(argparse.ArgumentParser):
    """A wrong option is answered with the nearest right one."""

    def error(self, message: str) -> Any:
        known = [option for action in self._actions for option in action.option_strings]
        wrong = re.search(r"unrecognized arguments: (\S+)", message)
        if wrong:
            message = f"no option '{wrong[1]}'. {nearest(wrong[1], known)}"
        message = re.sub(r"argument (--\w+): (?=\1)", "", message)  # which the type has said too
        raise ConfigError([message])
