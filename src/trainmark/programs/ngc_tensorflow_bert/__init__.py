"""NGC TensorFlow BERT."""
