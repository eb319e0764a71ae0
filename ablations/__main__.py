"""python -m ablations: the program `ablations` where its script is not installed."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from ablations.commands import main

    sys.exit(main())
