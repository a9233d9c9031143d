"""trainmark."""
