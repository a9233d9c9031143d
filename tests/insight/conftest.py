"""The pairs of language models, which a benchmark explains as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
