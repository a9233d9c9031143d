"""PaddleRec."""
