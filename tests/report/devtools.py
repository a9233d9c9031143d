"""A real browser that is typed into and photographed: Chromium, by its DevTools protocol over a pipe."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import CHROMIUM

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "ArrowDown": 40}
_TEXT = {"Enter": "\r", "Space": " "}
_LONGEST_S = 120


class Tab:
    """An open page."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def open(self, address: str, width: int = 1300, height: int = 900, dark: bool = False) -> None:
        """Open an address in a window of a size (px), and wait until its scripts have run."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        # The same page with another fragment would not be loaded again.
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)
        until = time.monotonic() + _LONGEST_S
        while self.evaluate("location.href + document.readyState") in ("about:blankcomplete", "", None) or (
            self.evaluate("document.readyState") != "complete"
        ):
            assert time.monotonic() < until, f"{address} was not opened"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press a key."""
        named = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": _TEXT[key]} if key in _TEXT else {}
        self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **named, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self) -> bytes:
        """Return the window as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                part = os.read(self._reading, 1 << 20)
                assert part, "the browser has ended"
                self._rest += part
            text, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]


@contextmanager
def browser_tab(profile: Path) -> Iterator[Tab]:
    """Yield a page of a browser of its own, whose profile is in a folder."""
    assert CHROMIUM is not None
    # The browser reads requests from its descriptor 3 and writes answers to 4.
    (its_input, our_output), (our_input, its_output) = os.pipe(), os.pipe()
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
        "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}",
    ]  # fmt: skip
    started = ["bash", "-c", f'exec "$@" 3<&{its_input} 4>&{its_output}', "bash", *words]
    with subprocess.Popen(started, pass_fds=(its_input, its_output), stderr=subprocess.DEVNULL) as browser:
        os.close(its_input)
        os.close(its_output)
        try:
            yield Tab(our_input, our_output)
        finally:
            browser.terminate()
            os.close(our_output)
            os.close(our_input)
