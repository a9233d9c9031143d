"""PaddleNLP BERT."""
