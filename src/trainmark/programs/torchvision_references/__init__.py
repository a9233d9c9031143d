"""torchvision references."""
