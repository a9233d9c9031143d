"""The documents that trainmark reads and writes, as frozen models and enums."""
