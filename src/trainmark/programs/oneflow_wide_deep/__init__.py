"""OneFlow-Benchmark's Wide & Deep."""
