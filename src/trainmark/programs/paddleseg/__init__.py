"""PaddleSeg."""
