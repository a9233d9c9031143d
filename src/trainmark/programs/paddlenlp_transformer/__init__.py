"""PaddleNLP Transformer."""
