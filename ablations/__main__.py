"""Runs the command-line program: `python -m ablations`."""

import sys

from ablations.commands import main

if __name__ == "__main__":
    sys.exit(main())
