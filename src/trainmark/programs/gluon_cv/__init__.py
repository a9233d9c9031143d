"""gluon-cv."""
