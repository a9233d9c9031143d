"""PaddleOCR."""
