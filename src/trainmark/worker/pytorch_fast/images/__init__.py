"""The fast path of image networks: a fused ResNet-50, and the loaders nvjpeg and DALI."""
