"""A browser for tests: Chromium without a window, through chromedriver and the WebDriver protocol (W3C)."""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from command import ROOT

DRIVER = shutil.which("chromedriver")
AXE = next(ROOT.glob(".venv/lib/python3*/site-packages/axe_selenium_python/node_modules/axe-core/axe.min.js"), None)
if not DRIVER or not AXE:
    print(f"skipped: {'axe-core' if DRIVER else 'chromedriver'} is not here")
    sys.exit(77)


class Browser:
    """One window. `dark`: whether the reader asks for dark pages."""

    def __init__(self, dark=False):
        self.home = tempfile.TemporaryDirectory()  # what it leaves behind
        self.process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "TMPDIR": self.home.name, "HOME": self.home.name})
        for line in self.process.stdout:
            if port := re.search(r"started successfully on port (\d+)", line):
                break
        self.root = f"http://127.0.0.1:{port[1]}/session"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
                            "--disable-background-networking", "--no-first-run", *(["--force-dark-mode"] if dark else [])]}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self.root += "/" + self.ask("", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.told = []

    def close(self):
        self.ask("", method="DELETE")
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
        self.home.cleanup()

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(self.root + path, method=method or ("GET" if body is None else "POST"),
                                         data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None

    def devtools(self, command, **parameters):
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, address):
        self.ask("/url", {"url": "about:blank"})
        self.console(), self.requests()  # those of the page before
        self.ask("/url", {"url": address})

    def run(self, script, *arguments):
        return self.ask("/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, seconds=30):
        """What the script gives, when it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}")
            time.sleep(0.1)
        return value

    def press(self, key):
        keys = {"Tab": "\ue004", "Enter": "\ue007", "Space": " "}
        self.ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": kind, "value": keys[key]} for kind in ("keyDown", "keyUp")]}]})

    def console(self):
        """Errors and warnings of the page since the last call."""
        return [entry["message"] for entry in self.ask("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """The addresses that were asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.ask("/se/log", {"type": "performance"})]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def violations(self):
        """What axe-core finds wrong in the page: contrast, names, roles, structure."""
        self.devtools("Runtime.evaluate", expression=AXE.read_text())
        found = self.ask("/execute/async", {"script": "const done = arguments[0]; axe.run(document).then((result) => done(result.violations))", "args": []})
        return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]]

    def shot(self, path):
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        path.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))
