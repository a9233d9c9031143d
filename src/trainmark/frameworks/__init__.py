"""What each framework is, a folder each: its environment and locks, a smoke test, its part of the built-in card."""
