"""nanoGPT."""
