"""The ground floor: the words of the house, as enums and frozen documents, and nothing else."""
