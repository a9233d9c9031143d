"""NVIDIA SSD."""
