"""The command line: one thin module per verb; ``main`` imports only the requested verb."""
