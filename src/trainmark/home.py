"""The folders for what trainmark makes for itself: environments, data sets and programs' sources."""

from collections.abc import Mapping
from pathlib import Path


def default_home(environ: Mapping[str, str]) -> Path:
    """Return ``$TRAINMARK_HOME``, else ``$XDG_DATA_HOME/trainmark``, else ``~/.local/share/trainmark``."""
    if home := environ.get("TRAINMARK_HOME"):
        return Path(home).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "trainmark"
