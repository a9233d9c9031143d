"""PaddleDetection."""
