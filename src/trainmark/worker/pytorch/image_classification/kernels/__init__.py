"""Kernels of our own in Triton for image networks; imported only where they are asked for."""
