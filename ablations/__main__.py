"""python -m ablations: the program `ablations` where its script is not installed."""

import sys

from ablations.commands import main

if __name__ == "__main__":
    sys.exit(main())
