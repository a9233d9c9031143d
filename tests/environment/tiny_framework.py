"""The wheel of a framework of a few lines, so that venv and pip can work for real without an index."""

import zipfile
from pathlib import Path


def make_wheel(folder: Path, version: str, body: str) -> Path:
    """Write the wheel of ``tinyframework`` with one module."""
    path = folder / f"tinyframework-{version}-py3-none-any.whl"
    info = f"tinyframework-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinyframework.py", body)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinyframework\nVersion: {version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path
