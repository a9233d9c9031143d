"""kohya-ss sd-scripts."""
