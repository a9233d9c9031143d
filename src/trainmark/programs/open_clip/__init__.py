"""OpenCLIP."""
