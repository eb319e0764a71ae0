"""A command line whose mistakes are answered in one line."""

from __future__ import annotations

import argparse
import re
from typing import Any

from model.config import ConfigError, nearest


class Parser(argparse.ArgumentParser):
    """A wrong option is answered with the nearest right one."""

    def error(self, message: str) -> Any:
        known = [option for action in self._actions for option in action.option_strings]
        wrong = re.search(r"unrecognized arguments: (\S+)", message)
        if wrong:
            message = f"no option '{wrong[1]}'. {nearest(wrong[1], known)}"
        message = re.sub(r"argument (--\w+): (?=\1)", "", message)  # which the type has said too
        raise ConfigError([message])
