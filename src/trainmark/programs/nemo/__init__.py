"""NeMo."""
