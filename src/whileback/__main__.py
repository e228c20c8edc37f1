"""`python -m whileback` is the command `whileback`."""

import sys

from whileback.cli import main

if __name__ == "__main__":
    sys.exit(main())
