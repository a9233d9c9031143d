"""fairseq2."""
