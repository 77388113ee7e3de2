"""The pages in a browser: what `neurim val` writes, and the board. Nothing is loaded from elsewhere, no errors, each control can be
reached by keyboard, axe-core finds nothing, in light and in dark, and the curves grow while a run trains.

With NEURIM_SHOTS=FOLDER the pages are kept there as images.
"""
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from browser import Browser
from command import NEURIM, TrainedRun, instead, neurim
from multi_label_cli_test import boxes

THEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"
# What has the focus, by its place among all that can have it.
FOCUSED = f"return [...document.querySelectorAll(\"{FOCUSABLE}\")].indexOf(document.activeElement)"
VISIBLE = f"return [...document.querySelectorAll(\"{FOCUSABLE}\")].filter((one) => one.offsetParent !== null).length"


class Pages(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browsers = {theme: Browser(theme == "dark") for theme in THEMES}
        cls.runs = cls.root / "board"
        cls.reports = {}
        evaluated = neurim("val", cls.folder, "name=page", "slice_by=size", "corruptions=true", "--json")
        table = boxes(cls.root / "boxes", 60)
        trained = neurim("train", "model=lenet5", "batch=16", "epochs=2", f"project={cls.runs}", "name=boxes", f"data={table}", "--json")
        assert trained.returncode == 0, trained
        several = neurim("val", cls.runs / "boxes", "--json")
        for name, run in (("one_class", evaluated), ("multi_label", several)):
            assert run.returncode == 0, run
            cls.reports[name] = Path(json.loads(run.stdout.splitlines()[-1])["run"], "report.html")
        cls.board = subprocess.Popen([NEURIM, "board", cls.runs, "port=0", "--json"], stdout=subprocess.PIPE, text=True)
        cls.address = json.loads(cls.board.stdout.readline())["address"]

    @classmethod
    def tearDownClass(cls):
        for browser in cls.browsers.values():
            browser.close()
        cls.board.send_signal(signal.SIGINT)
        cls.board.communicate(timeout=20)
        super().tearDownClass()

    def check(self, browser, name, theme, within):
        """Of the page that is open. `within`: what all its requests begin with."""
        self.assertEqual(browser.run("return getComputedStyle(document.body).backgroundColor"), THEMES[theme])
        self.assertEqual(browser.run("return [...document.images].filter((one) => !one.complete || one.naturalWidth === 0).length"), 0)
        self.assertEqual(browser.violations(), [])
        reached = set()
        for _ in range(browser.run(VISIBLE) + 2):
            browser.press("Tab")
            reached.add(browser.run(FOCUSED))
        self.assertEqual(len(reached - {-1}), browser.run(VISIBLE))
        self.assertGreater(len(reached), 3)
        self.assertEqual(browser.console(), [])
        requests = browser.requests()
        self.assertTrue(requests)
        for address in requests:
            self.assertTrue(address.startswith((within, "data:")), address)
        if "NEURIM_SHOTS" in os.environ:
            browser.shot(Path(os.environ["NEURIM_SHOTS"], f"{name}_{theme}.png"))

    def test_reports(self):
        for name, path in self.reports.items():
            for theme, browser in self.browsers.items():
                with self.subTest(name, theme=theme):
                    browser.open(path.as_uri())
                    self.check(browser, name, theme, path.as_uri())
                    browser.run("document.querySelectorAll('nav a')[1].focus()")
                    browser.press("Enter")
                    self.assertTrue(browser.run("return location.hash"))
                    self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 1280)

    def test_board(self):
        for theme, browser in self.browsers.items():
            with self.subTest(theme=theme):
                browser.open(self.address)
                browser.wait("return document.querySelectorAll('#curves svg').length")
                browser.wait("return document.querySelectorAll('#images img').length")
                browser.run("for (const one of document.images) one.loading = 'eager'")
                browser.wait("return [...document.images].every((one) => one.complete)")
                self.check(browser, "board", theme, self.address.split("?")[0])

    def test_a_run_is_chosen_by_keyboard(self):
        browser = self.browsers["light"]
        browser.open(self.address)
        browser.wait("return document.querySelectorAll('#curves svg').length")
        browser.run("document.querySelector('#list input').focus()")
        browser.press("Space")
        browser.wait("return document.querySelectorAll('#curves svg').length === 0")
        self.assertTrue(browser.run("return document.activeElement.matches('#list input')"))
        browser.press("Space")
        browser.wait("return document.querySelectorAll('#curves svg').length")

    def test_curves_grow_while_a_run_trains(self):
        browser = self.browsers["light"]
        points = "return (document.querySelector('#curves path')?.getAttribute('d').match(/[ML]/g) ?? []).length"
        training = subprocess.Popen([NEURIM, *instead(self.words, f"project={self.runs}", "epochs=500"), "name=growing"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            log = self.runs / "growing" / "metrics.jsonl"
            while not log.is_file() or '"epoch"' not in log.read_text():
                self.assertIsNone(training.poll())
                time.sleep(0.05)
            browser.open(self.address)
            browser.wait("return [...document.querySelectorAll('#list th[scope=row]')].some((one) => one.textContent === 'growing')")
            # Each click draws the list anew.
            browser.wait("const wrong = [...document.querySelectorAll('#list tbody tr')].filter((row) => row.querySelector('input').checked !== "
                         "(row.querySelector('th').textContent === 'growing')); wrong[0]?.querySelector('input').click(); return wrong.length === 0")
            seen = [browser.wait(points)]
            while len(seen) < 3:
                browser.wait(f"{points.replace('return ', 'return (')}) > {seen[-1]}")
                self.assertIsNone(training.poll())  # it still trains
                seen.append(browser.run(points))
            self.assertEqual(sorted(set(seen)), seen)
        finally:
            training.kill()
            training.wait(20)
        self.assertEqual(browser.console(), [])


if __name__ == "__main__":
    unittest.main()
