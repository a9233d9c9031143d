"""gluon-cv detection."""
