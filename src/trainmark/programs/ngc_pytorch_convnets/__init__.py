"""NGC PyTorch ConvNets."""
