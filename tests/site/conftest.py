"""The samples of reports and the browser, which live next to the report's tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "report"))
