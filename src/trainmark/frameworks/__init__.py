"""The frameworks, a folder each: environment and locks, a smoke test, the framework's part of the built-in card."""
