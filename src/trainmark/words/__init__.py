"""The ground floor: enums and frozen documents that every room speaks in, and nothing else."""
