"""Scripts that run in a framework's environment and import only the standard library and that framework."""
