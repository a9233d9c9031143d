"""Kernels of our own in Triton, for what lies between the matrix products; imported only where they are used."""
