"""TensorFlow official models."""
