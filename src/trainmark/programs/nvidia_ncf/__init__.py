"""NVIDIA NCF."""
