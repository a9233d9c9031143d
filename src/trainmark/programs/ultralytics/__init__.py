"""Ultralytics YOLO."""
