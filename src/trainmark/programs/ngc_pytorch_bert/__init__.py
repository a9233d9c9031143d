"""NGC PyTorch BERT."""
