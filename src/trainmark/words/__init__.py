"""The ground floor: the enums and the frozen documents that every other room speaks in, and nothing else."""
