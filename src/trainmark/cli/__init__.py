"""The command line: one module a verb, each thin; ``main`` imports only the verb that was asked for."""
