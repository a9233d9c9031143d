"""The mistakes that can be made in a worker, a module a task: each has ``MISTAKES`` by name."""
