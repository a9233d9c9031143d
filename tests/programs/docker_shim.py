#!PYTHON
"""Stands in for Docker where there is none: writes down how it was called, and runs a container's words on the host.

What a container is given of folders, GPUs and limits is only written down; its variables and its folder are real.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("--rm", "--init")


def main() -> None:
    words = sys.argv[1:]
    with (HERE / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    images = HERE / "images"
    if words[0] == "version":
        if (HERE / "no-daemon").exists():
            sys.exit("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
        sys.stdout.write("28.0\n")
    elif words[:2] == ["image", "inspect"]:
        sys.exit(0 if images.exists() and words[2] in images.read_text().splitlines() else 1)
    elif words[0] in ("build", "pull"):
        name = words[words.index("--tag") + 1] if words[0] == "build" else words[1]
        with images.open("a") as file:
            file.write(name + "\n")
    elif words[0] == "run":
        run(words[1:])


def run(words: "list[str]") -> None:
    variables, folder = {}, "/"
    while words[0].startswith("--"):
        option, *words = words
        if option in FLAGS or "=" in option:
            continue
        value, *words = words
        if option == "--env":
            name, _, variables[name] = value.partition("=")
        elif option == "--workdir":
            folder = value
    os.chdir(folder)
    os.execvpe(words[1], words[1:], variables | {"PATH": os.defpath})


main()
