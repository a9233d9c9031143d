"""NVIDIA Transformer-XL."""
