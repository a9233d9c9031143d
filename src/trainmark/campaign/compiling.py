"""Compilation ahead of the runs: programs for a GPU are compiled at once, beside the checks of equal work."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainmark.campaign.executor import Executor, is_one_worker
from trainmark.campaign.run_environment import CannotStart, RunEnvironment, at_once, plan_run
from trainmark.execution import read_record, run_plan, write_record
from trainmark.node import free_ports
from trainmark.placement import device_of
from trainmark.schema.case import SYNTHETIC, Case, Device

AT_ONCE, THREADS = 4, 4
"""How many programs are compiled at the same time, each in a process with the GPU memory of a run; its threads."""

STEPS = {"steps": 4, "warmup_steps": 1}
"""The steps of a compilation: a step that is recorded is recorded after two others."""


@contextmanager
def compiled_ahead(executor: Executor, cases: Sequence[Case]) -> Iterator[None]:
    """Compile the programs of these cases while the body of the ``with`` runs, and wait for the last one.

    The runs find them in the compiler's cache. What cannot be compiled here is left to its run, which says why.
    """
    programs = [case for case in cases if _can_be_compiled_ahead(case, executor)]
    with at_once(executor.run_env, AT_ONCE) as (pool, run_env):
        compilations = [pool.submit(_compile, case, executor, run_env) for case in programs]
        yield
        for compilation in compilations:
            compilation.result()


def _can_be_compiled_ahead(case: Case, executor: Executor) -> bool:
    """Return whether a case has a program for one GPU of one host, with all that the program depends on.

    A data set changes nothing of it, and may not be there yet.
    """
    run_env = executor.run_env
    return (
        case.compiler != Case.model_fields["compiler"].default
        and case.data == SYNTHETIC
        and is_one_worker(case, run_env)
        and device_of(case, run_env.machine) is Device.CUDA
        and not executor.directory.finished(case)
    )


def _compile(case: Case, executor: Executor, run_env: RunEnvironment) -> None:
    folder = executor.directory.compilation(case)
    setting = run_env.setting(case)
    if read_record(folder) is not None or isinstance(setting, CannotStart):
        return
    protocol, port = executor.suite.protocol.model_copy(update=STEPS), free_ports(1, run_env.hosts)
    # If a flag is given twice, the worker uses the last one.
    words = (f"--threads={THREADS}",)
    plan = plan_run(
        run_env, case, protocol, setting.interpreter, 1, folder.absolute(), port=port, more_words=words
    )
    if isinstance(plan, CannotStart) or plan.cannot_run is not None:
        return
    executor.listener.readying(f"{case.id}: compiling")
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder, run_plan(plan, folder, executor.suite.limits, run_env.hosts, run_env.watch))
