"""maskrcnn-benchmark."""
