"""What a manifest says, read tolerantly: a manifest of another version shows what it has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainmark.report.language import Catalogue
from trainmark.report.numbers import GIB


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every fact of a JSON value as (path, text), in the value's own order; null and empty are left out.

    In a list of objects, a fact that is the same in all of them is told once: ``gpus[0-7].name``.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        yield from _flat_list(value, path)
    elif value is not None and value != "":
        yield path, _text(value)


def _flat_list(values: Sequence[Any], path: str) -> Iterator[tuple[str, str]]:
    if all(isinstance(inner, str | int | float | bool) or inner is None for inner in values):
        if values:
            yield path, ", ".join(_text(inner) for inner in values)
        return
    held = [dict(flat(inner)) for inner in values]
    for name in dict.fromkeys(name for facts in held for name in facts):
        end = f".{name}" if name and not name.startswith("[") else name
        if len(held) > 1 and len({facts.get(name) for facts in held}) == 1:
            yield f"{path}[0-{len(held) - 1}]{end}", held[0][name]
        else:
            yield from ((f"{path}[{i}]{end}", facts[name]) for i, facts in enumerate(held) if name in facts)


def nodes(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the nodes that a manifest describes; none where it has no such list."""
    return _mappings(manifest.get("nodes"))


def look(value: Any, *path: str) -> Any:
    """Return what stands at ``path`` in nested mappings, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def hardware(node: Mapping[str, Any], say: Catalogue) -> str | None:
    """Return a node's GPUs, or without any its processors, in a few words."""
    return gpus(node) or processors(node, say)


def gpus(node: Mapping[str, Any]) -> str | None:
    """Return a node's GPUs by name, with their number."""
    names = Counter(str(look(gpu, "name") or "GPU") for gpu in _mappings(look(node, "accelerators", "gpus")))
    return " + ".join(f"{n} × {name}" for name, n in names.items()) or None


def processors(node: Mapping[str, Any], say: Catalogue) -> str | None:
    """Return a node's processor model and how many cores and threads it has."""
    model = look(node, "cpu", "model")
    known = [(key, look(node, "cpu", key)) for key in ("cores", "threads")]
    sizes = say.joined([say.count(key, n) for key, n in known if isinstance(n, int)])
    return say("processors", model=model, sizes=sizes) if model and sizes else model or sizes or None


def framework(node: Mapping[str, Any]) -> str | None:
    """Return the framework and its version as the manifest has it."""
    name, version = look(node, "framework", "framework"), look(node, "framework", "version")
    return f"{name} {version}" if name and version else None


def summary(node: Mapping[str, Any], say: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield what a reader asks first about a node, as (key of the fact's name, text), as far as it is known."""
    memory, limit = look(node, "memory", "total_bytes"), look(node, "memory", "limit_bytes")
    first_gpu = next(iter(_mappings(look(node, "accelerators", "gpus"))), {})
    facts = {
        "fact_gpus": gpus(node),
        "fact_gpu_memory": _gib(first_gpu.get("memory_bytes")),
        "fact_driver": look(node, "accelerators", "driver"),
        "fact_processors": processors(node, say),
        "fact_memory": _gib(memory),
        "fact_memory_limit": _gib(limit),
        "fact_os": look(node, "os", "name"),
        "fact_kernel": look(node, "os", "kernel"),
        "fact_container": look(node, "container", "engine"),
        "fact_framework": framework(node),
        "fact_python": look(node, "framework", "python"),
        "fact_cuda": look(node, "framework", "cuda"),
        "fact_cudnn": look(node, "framework", "cudnn"),
        "fact_nccl": look(node, "framework", "nccl"),
        "fact_lock": look(node, "environment_lock"),
    }
    yield from ((name, _text(fact)) for name, fact in facts.items() if fact is not None)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [inner for inner in value if isinstance(inner, Mapping)]


def _gib(size: Any) -> str | None:
    return f"{size / GIB:.1f} GiB" if isinstance(size, int | float) and size > 0 else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
