"""NVML behind one small wrapper: what a driver or a GPU does not offer is None, never an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Nvml:
    """A started NVML. ``module`` is ``pynvml`` (package nvidia-ml-py), or a stand-in with its functions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def ask(self, function: str, *arguments: Any) -> Any:
        """Return what an NVML function returns; None when the GPU, the driver or the binding does not offer it."""
        try:
            return getattr(self._module, function)(*arguments)
        except (AttributeError, self._module.NVMLError):
            return None

    def text(self, function: str, *arguments: Any) -> str | None:
        """Return a string; older bindings give bytes."""
        value = self.ask(function, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def constant(self, name: str) -> int:
        """Return a constant of the binding by its name."""
        return int(getattr(self._module, name))

    def handles(self) -> list[Any]:
        """Return the handles of the GPUs, in NVML's order; a GPU that is lost is left out."""
        found = [
            self.ask("nvmlDeviceGetHandleByIndex", index)
            for index in range(self.ask("nvmlDeviceGetCount") or 0)
        ]
        return [handle for handle in found if handle is not None]


@contextmanager
def open_nvml() -> Iterator[Nvml | None]:
    """Start NVML and stop it at the end; gives None where there is no driver (or no binding)."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield Nvml(pynvml)
    finally:
        pynvml.nvmlShutdown()
