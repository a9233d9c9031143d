"""Makes the reduced schemas of Kubeflow's jobs that the tests hold manifests against, from clones of its repositories.

    python scripts/kubeflow_schemas.py MPI_OPERATOR.git TRAINER.git > tests/submission/kubeflow.json

What a manifest can be wrong in stays (names, types, what is required, what may stand there); descriptions, defaults and
rules in the Common Expression Language go. What the file then says more than once stands once, under ``$defs``.
"""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from typing import Any

import yaml

SOURCES = (
    ("kubeflow/mpi-operator", ("manifests/base/kubeflow.org_mpijobs.yaml",)),
    (
        "kubeflow/trainer",
        (
            "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
            "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
        ),
    ),
)
KEPT = ("type", "required", "enum", "pattern", "minimum", "maximum")
LENGTHS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
COMPOSED = ("anyOf", "oneOf", "allOf")
WORTH = 60
"""What is shorter than this stands where it is."""


def reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what of a schema says how a manifest must look; a name that it does not list is refused."""
    kept = {key: schema[key] for key in (*KEPT, *LENGTHS) if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept = {"type": ["integer", "string"]} | {key: kept[key] for key in kept if key == "pattern"}
    for key in COMPOSED:
        if key in schema and not schema.get("x-kubernetes-int-or-string"):
            kept[key] = [reduced(part) for part in schema[key]]
    if "items" in schema:
        kept["items"] = reduced(schema["items"])
    if "properties" in schema:
        kept["properties"] = {name: reduced(part) for name, part in sorted(schema["properties"].items())}
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        kept["additionalProperties"] = reduced(more)
    elif "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        kept["additionalProperties"] = False
    return kept


def shared(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas with every part that stands in them more than once under ``$defs``."""
    seen: Counter[str] = Counter()
    _count(schemas, seen)
    defs: dict[str, Any] = {}
    return {"$defs": defs, **{name: _with_references(schema, seen, defs) for name, schema in schemas.items()}}


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value and not isinstance(value["type"], dict)


def _count(value: Any, seen: Counter[str]) -> None:
    if _is_schema(value):
        text = json.dumps(value, sort_keys=True)
        seen[text] += 1
        if seen[text] > 1:
            return
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _count(part, seen)


def _with_references(value: Any, seen: Counter[str], defs: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_with_references(part, seen, defs) for part in value]
    if not isinstance(value, dict):
        return value
    text = json.dumps(value, sort_keys=True)
    if not (_is_schema(value) and seen[text] > 1 and len(text) > WORTH):
        return {key: _with_references(part, seen, defs) for key, part in value.items()}
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    if name not in defs:
        defs[name] = {}
        defs[name] = {key: _with_references(part, seen, defs) for key, part in value.items()}
    return {"$ref": f"#/$defs/{name}"}


def main(git_dirs: list[str]) -> None:
    """Print the reduced schemas of what lies at HEAD of the repositories."""
    said, schemas = [], {}
    for (repository, paths), git_dir in zip(SOURCES, git_dirs, strict=True):
        git = ("git", "--git-dir", git_dir)
        commit = subprocess.check_output((*git, "rev-parse", "HEAD"), text=True).strip()
        for path in paths:
            crd = yaml.safe_load(subprocess.check_output((*git, "show", f"HEAD:{path}"), text=True))
            (version,) = crd["spec"]["versions"]
            group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
            found = version["schema"]["openAPIV3Schema"]
            # What the operator says of a job is not ours to say.
            found["properties"].pop("status", None)
            schemas[f"{group}/{version['name']}/{kind}"] = reduced(found)
            said.append({"repository": f"https://github.com/{repository}", "commit": commit, "path": path})
    document = {"sources": said, **shared(schemas)}
    lines = (
        f'"$defs": {{\n{_lines(document["$defs"])}\n}}'
        if key == "$defs"
        else f"{json.dumps(key)}: {_text(value)}"
        for key, value in document.items()
    )
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(defs: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {_text(part)}" for name, part in sorted(defs.items()))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
