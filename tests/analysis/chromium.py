"""A headless Chromium, driven over a pipe in its own DevTools protocol: no library is needed."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
]
PATIENCE = 60.0  # seconds for one answer, on a machine that others use too


def find() -> str | None:
    """Where Chromium is, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One browser with one tab; `events` has all that it has told unasked."""

    def __init__(self, program: str, profile: Path) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()

        def hand_over() -> None:  # Chromium reads from 3 and writes to 4
            read, write = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._buffer = ours_in, ours_out, b""
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._attach()

    def _attach(self) -> None:
        targets = self.ask("Target.getTargets")["targetInfos"]
        tab = next(each["targetId"] for each in targets if each["type"] == "page")
        found = self.ask("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda told: told.get("id") == number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._buffer:
                text, self._buffer = self._buffer.split(b"\0", 1)
                told = json.loads(text)
                if "method" in told:
                    self.events.append(told)
                if wanted(told):
                    return dict(told)
            assert select.select([self._in], [], [], end - time.monotonic())[0], "no answer"
            more = os.read(self._in, 1 << 20)
            assert more, "Chromium has gone"
            self._buffer += more

    def open(self, page: Path, width: int = 1440, dark: bool = False) -> None:
        """Show a page in a window of this width, and forget what was told of others."""
        self.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self._go("about:blank")
        self._go(page.as_uri())

    def _go(self, address: str) -> None:
        self.events.clear()
        self.ask("Page.navigate", url=address)
        if not self.named("Page.loadEventFired"):
            self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def named(self, method: str) -> list[dict[str, Any]]:
        """What it has told of one kind since the page was opened."""
        return [each["params"] for each in self.events if each["method"] == method]

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """One key, as a keyboard sends it."""
        codes = {"Tab": 9, "Enter": 13}
        told = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **told, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
