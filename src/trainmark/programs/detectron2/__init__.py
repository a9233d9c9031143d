"""detectron2."""
