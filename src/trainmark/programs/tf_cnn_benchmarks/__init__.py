"""tf_cnn_benchmarks."""
