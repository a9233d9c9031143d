"""mmsegmentation."""
