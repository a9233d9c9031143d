"""Scripts that run inside a framework's environment: the standard library and that framework only."""
