"""PyTorch examples/imagenet."""
