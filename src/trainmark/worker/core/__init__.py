"""The common parts of all frameworks and tasks: flags, timing, the base of a training, events, ranks, outcomes."""
