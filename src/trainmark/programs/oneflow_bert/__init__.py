"""OneFlow-Benchmark's BERT pre-training."""
