"""TorchRec's throughput metric."""
