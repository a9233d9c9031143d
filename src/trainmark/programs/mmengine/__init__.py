"""MMEngine."""
