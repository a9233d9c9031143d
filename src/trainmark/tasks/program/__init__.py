"""The neutral task: another project's program, about which only what somebody states is known."""

from trainmark.tasks.declaration import Task, TaskAxes

__all__ = ["TASK"]

TASK = Task(
    name="program",
    en="training program",
    zh="训练程序",
    axes=TaskAxes,
    counters=("samples",),
    is_neutral=True,
)
