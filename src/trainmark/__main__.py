"""``python -m trainmark``: the same as the command ``trainmark``."""

import sys

from trainmark.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
