"""NGC PyTorch Transformer (fairseq)."""
