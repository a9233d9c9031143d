"""Horovod's synthetic benchmarks."""
