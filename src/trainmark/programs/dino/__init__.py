"""DINO and DINOv2."""
