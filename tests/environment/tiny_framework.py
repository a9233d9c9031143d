"""Packages of a few lines, as wheels and as source, so that venv and pip can work for real without the network."""

import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

BACKEND = '''
"""Builds the wheel of a package whose module says with what it was built."""
import os
import zipfile

import tinytool


def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "{name}-{version}-py3-none-any.whl"
    info = "{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("{name}.py", "built_with = " + repr([tinytool.name, os.environ["TINY_WITH"]]))
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
'''


def make_wheel(
    folder: Path, version: str, body: str, name: str = "tinyframework", module: str | None = None
) -> Path:
    """Write the wheel of a package with one module, called like the package unless said otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = name.replace("-", "_")
    path = folder / f"{plain}-{version}-py3-none-any.whl"
    info = f"{plain}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module or plain}.py", body)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/RECORD,,\n{module or plain}.py,,\n")
    return path


def make_source(folder: Path, name: str, version: str) -> Path:
    """Write the source of a package that needs the module ``tinytool`` and the variable TINY_WITH to be built."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    files = {
        "pyproject.toml": '[build-system]\nrequires = ["tinytool"]\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND.format(name=name, version=version),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{file}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder with a folder a project, which is what a simple package index is; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
