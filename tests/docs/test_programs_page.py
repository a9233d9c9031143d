"""The matrix of measured programs is what the stored results say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_matrix_of_programs_is_what_the_stored_results_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "programs_page.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
