"""GluonNLP."""
