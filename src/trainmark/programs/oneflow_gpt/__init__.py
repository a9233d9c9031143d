"""OneFlow-Benchmark's GPT pre-training."""
