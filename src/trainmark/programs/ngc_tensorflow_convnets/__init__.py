"""NGC TensorFlow ConvNets."""
