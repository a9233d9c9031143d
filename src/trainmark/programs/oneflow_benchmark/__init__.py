"""OneFlow-Benchmark."""
