"""What differs by task is its own: nothing else speaks of pictures, their size or order in memory, or names models."""

import re
from importlib import import_module
from pathlib import Path

import trainmark

HOUSE = Path(trainmark.__file__).parent

WORDS = re.compile(
    r"\bimages\b|\bimage[-_](size|folder|class|data)|imagenet|pixels?\b|layout|\bn(chw|hwc)\b|\b224\b",
    re.IGNORECASE,
)
"""``image`` alone, and ``image:``, is a container's."""

OWN = (
    "tasks/image_classification/",
    "dataset/images/",
    "worker/tasks/image_classification/",
    "worker/pytorch_fast/images/",
    "worker/pytorch_fast/kernels/",
    *(f"worker/models/{framework.name}_image_" for framework in (HOUSE / "frameworks").iterdir()),
    *(f"worker/backends/{framework.name}/loading.py" for framework in (HOUSE / "frameworks").iterdir()),
)
"""The task's own folders and models, its kind of data set, PyTorch's fast path, and the frameworks' loaders."""

PUBLISHED = {
    "reference/data/": "what was published, as it was published",
    "reference/tables/": "what was published, as it was published",
    "insight/evidence/": "what others saw, as they said it",
}

EXCEPTIONS = {
    "cli/image_data.py": "the commands of the kind of data set",
    "report/texts/doubts.zh.yaml": "the Chinese text of every code of a doubt, in one catalogue",
    "cli/parse.py": "--layout says how a tree of logs is laid out",
    "measure/rules/tree.py": "the same flag, in the error that names it",
    "logs/guess/families.py": "what unknown programs print after a rate",
    "measure/rules/units.py": "what published tables call their units",
    "cli/data.py": "the place where the commands of kinds are listed",
    "worker/gaps.json": "the unsupported combinations of every task's axes, in one table",
    "worker/cards.yaml": "the loaders of every task's data, in one table",
    "workload/card.py": "the key of a card that asks for stand-ins of downloads",
    "workload/generate.py": "the generator of stand-ins for programs that download their data",
}


def test_no_file_outside_a_tasks_own_speaks_of_pictures() -> None:
    # A foreign program's files speak of what the program trains; trainmark's own trains any task.
    programs = {
        str(file.relative_to(HOUSE)) for file in HOUSE.glob("programs/*/**/*.*") if file.stem != "trainmark"
    }
    excluded = (*OWN, *PUBLISHED, *EXCEPTIONS, *programs)
    found = {
        f"{path.relative_to(HOUSE)}:{number}: {line.strip()}"
        for path in sorted(HOUSE.rglob("*"))
        if path.suffix in (".py", ".yaml", ".json") and not str(path.relative_to(HOUSE)).startswith(excluded)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if WORDS.search(line)
    }
    assert not found, "\n".join(sorted(found))


def test_every_exception_is_needed() -> None:
    for name in (*PUBLISHED, *EXCEPTIONS):
        paths = (HOUSE / name).rglob("*") if (HOUSE / name).is_dir() else [HOUSE / name]
        assert any(WORDS.search(path.read_text(encoding="utf-8")) for path in paths if path.is_file()), name


MODEL_FOLDERS = re.compile(r"(worker/)?tasks/|worker/models/|worker/pytorch_fast/images/|programs/")

MODEL_EXCEPTIONS = {
    "cli/init.py": "the models that it proposes for a first suite",
    "equivalence/golden/": "the golden observations of each model",
    "reference/data/": "what was published, as it was published",
    "insight/explanation.py": "the docstring that says when two spellings are one model",
    "report/exchange/missions.yaml": "the names that a database has for models",
    "worker/gaps.json": "compilers that have kernels for one model, and models without layers in a framework",
}


def test_no_file_outside_tasks_and_programs_names_a_model() -> None:
    names = [model for folder in HOUSE.glob("worker/tasks/*/architectures.py") for model in _models(folder)]
    assert len(names) > 8
    word = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names))
    found = set()
    for path in sorted(HOUSE.rglob("*")):
        name = str(path.relative_to(HOUSE))
        if path.suffix not in (".py", ".yaml", ".json") or MODEL_FOLDERS.match(name):
            continue
        if word.search(path.read_text(encoding="utf-8")):
            found.add(name)
    unforeseen = {name for name in found if not name.startswith(tuple(MODEL_EXCEPTIONS))}
    assert not unforeseen, "\n".join(sorted(unforeseen))
    for exception in MODEL_EXCEPTIONS:
        assert any(name.startswith(exception) for name in found), f"{exception} is an exception for nothing"


def _models(architectures: Path) -> list[str]:
    task = import_module(f"trainmark.worker.tasks.{architectures.parent.name}.architectures")
    return list(task.ARCHITECTURES)
