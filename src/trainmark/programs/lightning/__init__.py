"""PyTorch Lightning."""
