"""PaddleClas."""
