"""The fast path of PyTorch: kernels, fused steps, gradients in 16 bits, FP8, and decoders of the GPU."""
