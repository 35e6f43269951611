"""Headless Chromium for tests: it starts without network traffic, and tests ask for its log messages and its
requests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
_HINT = "install it with: apt-get install --no-install-recommends chromium chromium-driver"


def _needed(program: str) -> str:
    """Return the program's path; fail if it is missing, because a skipped test proves nothing."""
    path = shutil.which(program)
    assert path is not None, f"{program} is missing, so the report cannot be looked at; {_HINT}"
    return path


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Yield a browser that keeps its console log and its network log."""
    options = Options()
    options.binary_location = _needed("chromium")
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_needed("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Any, page: Path, *, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
    """Show the page in a viewport of exactly that width, without any state of earlier pages."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    # The browser's start page loads its own parts: wait for them before the test listens.
    driver.get("about:blank")
    for kind in ("performance", "browser"):
        driver.get_log(kind)
    driver.get(page.as_uri())


def console_messages(driver: Any) -> list[str]:
    """Return all messages that the page caused in the browser's log: errors, warnings, refused loads."""
    return [f"{entry['level']}: {entry['message']}" for entry in driver.get_log("browser")]


def fetched(driver: Any) -> list[str]:
    """Return every address that the browser requested, from its network log."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
