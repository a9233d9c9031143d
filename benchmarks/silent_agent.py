"""A fake agent that runs nothing but answers like a real one, to measure the controller's cost per host without hosts.

Its arguments: a file with what ``machine`` and ``facts`` answer, how long a job takes (seconds), and its host's name.
"""

import io
import json
import queue
import sys
import tarfile
import threading
import time

ANSWERS = json.loads(open(sys.argv[1], encoding="utf-8").read())  # noqa: PTH123, SIM115
JOB_S = float(sys.argv[2])
NODE = int(sys.argv[3].removeprefix("node")) - 1
LOG = b"".join(b"step %d/100\n" % step for step in range(100))


def tell(message: dict[str, object], body: bytes = b"") -> None:
    sys.stdout.buffer.write(json.dumps({**message, "bytes": len(body)}).encode() + b"\n" + body)
    sys.stdout.buffer.flush()


def files() -> bytes:
    """Return a log and a telemetry file of a usual size, as an archive."""
    which = f".node{NODE}" if NODE else ""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in ((f"train{which}.log", LOG), (f"telemetry{which}.jsonl", LOG * 20)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def main() -> None:
    """Answer requests until the input ends."""
    sys.stdout.buffer.write(b"trainmark-agent\n")
    tell({"hello": ANSWERS["hello"]})
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        while line := sys.stdin.buffer.readline():
            sys.stdin.buffer.read(json.loads(line)["bytes"])
            inbox.put(line)
        inbox.put(b"")

    threading.Thread(target=read, daemon=True).start()
    jobs: dict[int, float] = {}
    number = 0
    while True:
        try:
            line = inbox.get(timeout=0.25)
        except queue.Empty:
            for pid, began in list(jobs.items()):
                elapsed = time.monotonic() - began
                code = 0 if elapsed > JOB_S else None
                step = min(100, int(100 * elapsed / JOB_S))
                tell({"job": pid, "code": code, "written": 10 * step, "step": step, "private_bytes": 0})
                if code == 0:
                    del jobs[pid]
            continue
        if not line:
            return
        request = json.loads(line)
        value: object = None
        call, body = request.get("call"), b""
        # Only the last part of a multi-part message carries the call.
        if call in ("ping", None):
            tell({"pong": 0})
            continue
        if call == "start":
            number += 1
            value = number
            jobs[number] = time.monotonic()
        elif call == "get":
            body = files()
        elif call == "reap":
            value = [0, 0]
        elif call == "has":
            # Its disk is not the controller's.
            value = ".trainmark-" not in request["path"]
        else:
            value = ANSWERS.get(
                call,
                {"time": time.time(), "has_free_ports": True, "kill": 0, "digests": {}, "stopped": []}.get(
                    call
                ),
            )
        tell({"id": request["id"], "value": value}, body)


if __name__ == "__main__":
    main()
