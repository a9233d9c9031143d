"""The light core: what works without the extras, the sentence where one is missing, and the contents of the wheel."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from trainmark.imports import EXTRA_OF
from trainmark.manual_pages import with_pages

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "results" / "h200"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOG = "".join(f"iter {step}: loss 2.{step:04}, time 100.00ms, mfu 10.0%\n" for step in range(60))

WITHOUT_EXTRAS = f"""\
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRA_OF)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from trainmark.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def core(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as if no extra were installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "parse train.log --gpus 1 --batch 480",
        "plan suite.yaml",
        "check",
        "reference list",
        "card list",
        "env list",
        "suites list",
        "explain train.log --against train.log",
    ],
)
def test_the_core_works_without_the_extras(words: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "suite.yaml").write_text("name: one\nenvironment: system\naxes: {batch_per_device: [8]}\n")

    ran = core(*words.split(), folder=tmp_path)

    assert "which is not installed" not in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("run -- true", "report,run"),
        (f"compare {STORED} {STORED}", "run"),
        (f"report {STORED} --to html", "report"),
        (f"export {STORED} --to parquet --output new", "frames"),
        (f"export {STORED} --to mllog --output new", "mllog"),
        (f"export {STORED} --to mlflow --output file:new", "mlflow"),
        (f"export {STORED} --to tensorboard --output new", "tensorboard"),
        (f"export {STORED} --to wandb --output new", "wandb"),
        (f"export {STORED} --to openmetrics --output new.prom", "openmetrics"),
        (f"export {STORED} --to junit --output new.xml", "junit"),
        (f"store add {STORED} --to new.sqlite", "run"),
        ("data make-images-nothing", ""),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command(words: str, extra: str, tmp_path: Path) -> None:
    ran = core(*words.split(), folder=tmp_path)

    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert list(tmp_path.glob("new*")) == []
    if extra:
        assert ran.stderr.endswith(f"not installed: pip install 'trainmark[{extra}]'\n")


def test_a_log_whose_compression_is_an_extra_is_unreadable_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.log.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")

    ran = core("parse", "train.log.zst", folder=tmp_path)

    assert "pip install 'trainmark[zstd]'" in ran.stdout
    assert ran.returncode == 1


def test_the_extras_install_what_the_messages_name() -> None:
    extras = PROJECT["optional-dependencies"]
    distributions = {"PIL": "pillow", "mlflow": "mlflow-skinny"}

    for module, extra in EXTRA_OF.items():
        names = {re.split(r"[\[>=<]", text)[0].lower() for text in extras[extra]}
        assert distributions.get(module, module).lower().replace("_", "-") in names, module
    (everything,) = (text for text in extras["all"])
    assert set(EXTRA_OF.values()) <= set(re.findall(r"\w+", everything))


def test_the_wheel_holds_suites_references_cards_and_its_metadata(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    for path in (ROOT / "suites").glob("*.yaml"):
        assert f"trainmark/suites/{path.name}" in names
    assert {"trainmark/__main__.py", "trainmark/py.typed", "trainmark/frameworks/card.yaml"} <= names
    assert any(name.startswith("trainmark/reference/data/") for name in names)
    assert any(name.startswith("trainmark/programs/cards/") for name in names)
    pages = {name.removeprefix("trainmark/manual/") for name in names if name.startswith("trainmark/manual/")}
    assert {"how-to/exports.md", "reference/logs.md", "explanation/concepts.md"} <= pages
    assert [page for page in pages if page.startswith(("results/", "pictures/", "adr/"))] == []
    assert "Classifier: Typing :: Typed" in metadata
    assert "Provides-Extra: report" in metadata
    assert "Requires-Dist: scipy" not in re.sub(r"Requires-Dist: .*; extra == .*", "", metadata)
    assert wheel.stat().st_size < 3e6


def test_a_message_names_a_page_where_it_is(tmp_path: Path) -> None:
    installed = tmp_path / "manual"
    (installed / "how-to").mkdir(parents=True)
    (installed / "how-to" / "describe-a-log.md").touch()
    unknown = "docs/how-to/" + "unknown.md"
    text = f"describe its lines (docs/how-to/describe-a-log.md, {unknown})"

    in_package = f"describe its lines ({installed}/how-to/describe-a-log.md, {unknown})"
    assert with_pages(text, installed) == in_package
    assert with_pages(text) == text
    (tmp_path / "link").symlink_to(installed)
    assert with_pages(text, tmp_path / "link") == text


def test_the_package_is_a_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "trainmark", "--version"], capture_output=True, text=True, check=True
    )

    assert ran.stdout.startswith("trainmark ")


def test_an_older_python_is_named_in_one_line() -> None:
    old = "import sys; sys.version_info = (3, 8, 18, 'final', 0); import trainmark"
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True, check=False)

    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: trainmark needs Python 3.11 or later; with an older"
    )
