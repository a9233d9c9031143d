"""The report's sections, one module each; ``compose`` puts them in order."""
