"""The report's sections, related ones in one module; ``compose`` puts them in order."""
