"""The command line: python -m ablations list | plan | run | status | clean | diff | show | try."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from ablations.commands import main

    sys.exit(main(sys.argv[1:]))
