"""benchmarks/compare keeps what it measured and goes on from there; scripts/benchmark_page shows all of it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Stands for the command and for the Python of the peers: a call of the first takes 10 ms, of the others 20. In BROKEN are the
# peers that end before they begin, in MISSING the packages that are not installed.
PROGRAM = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
say = lambda **answer: print(json.dumps(answer), flush=True)
if words[0] == "models":
    say(event="model", name="resnet50")
    say(event="summary", models=1)
elif words[0] == "export":
    open(words[-1].split("=")[1], "w").close()
elif words[0] == "-c":
    sys.exit(any(f"'{{name}}'" in words[1] for name in os.environ.get("MISSING", "").split()))
elif not any(f"{{name}}_peer.py" in words[0] for name in os.environ.get("BROKEN", "").split()):
    ours = words[0] == "benchmark"
    options = dict(word.split("=") for word in words if "=" in word) if ours else dict(zip(words[1::2], words[2::2]))
    batch = int(options["batch" if ours else "--batch"])
    say(ready=1, base={{"version": "1.2"}}, keys={{"bs": batch}})
    for line in sys.stdin:
        if line.split()[0] == "quit":
            say(peak_rss_mib=100.4 if ours else 200.6)
            break
        say(times=[0.01 if ours else 0.02])
"""


class Compare(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.results = Path(home.name, "kept", "results.jsonl")
        self.program = Path(home.name, "program")
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def compare(self, *words, **env):
        run = subprocess.run([sys.executable, ROOT / "benchmarks" / "compare", "--neurim", self.program, "--python", self.program,
                              "--rounds", "2", "--seconds", "0", "--results", self.results, *words],
                             env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
        return run, [json.loads(line) for line in run.stdout.splitlines()]

    def kept(self):
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def test_rows(self):
        run, rows = self.compare("--cases", "train-resnet50-b16,infer-resnet50-b1", MISSING="openvino")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("openvino is left out", run.stderr)
        self.assertEqual(rows, self.kept())
        self.assertEqual([(row["case"], row["peer"]) for row in rows],
                         [("train-resnet50-b16", "torch eager"), ("infer-resnet50-b1", "torch eager"),
                          ("infer-resnet50-b1", "onnxruntime")])
        for row, images in zip(rows, (16, 1, 1)):
            self.assertEqual((row["neurim_samples"], row["peer_samples"]), ([100 * images] * 2, [50 * images] * 2))
            self.assertEqual((row["ratio"], row["ratios"], row["peer_version"]), (2, [2, 2], "1.2"))
            self.assertEqual((row["neurim_peak_rss_mib"], row["peer_peak_rss_mib"]), (100, 201))
            self.assertRegex(row["date"], r"^\d{4}-\d\d-\d\d$")

    def test_goes_on_where_it_was_cut_off(self):
        words = ["--cases", "infer-resnet50-b1,infer-resnet50-b32"]
        broken, rows = self.compare(*words, MISSING="torch openvino", BROKEN="onnxruntime")
        self.assertEqual((broken.returncode, rows), (1, []))
        self.assertIn("failed: infer-resnet50-b1, infer-resnet50-b32", broken.stderr)
        self.assertEqual(self.kept(), [])

        self.compare("--cases", "infer-resnet50-b1", MISSING="torch openvino")
        _, rows = self.compare(*words, MISSING="torch openvino")
        self.assertEqual([row["case"] for row in rows], ["infer-resnet50-b32"])
        run, rows = self.compare(*words, MISSING="torch openvino")
        self.assertEqual(rows, [])
        self.assertIn("infer-resnet50-b1 is known already", run.stderr)
        _, rows = self.compare(*words, MISSING="torch")
        self.assertEqual([row["peer"] for row in rows], ["openvino"] * 2)
        _, rows = self.compare("--threads", "1", *words, MISSING="torch")
        self.assertEqual(len(rows), 4)
        self.assertEqual(len(self.kept()), 8)

    def test_suite_without_models(self):
        run, rows = self.compare("--suite", "breadth")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted({row["case"] for row in rows}), ["infer-resnet50-b1", "infer-resnet50-b32", "train-resnet50-b16"])
        self.assertIn("train-lenet5-b16 is left out", run.stderr)
        unknown, _ = self.compare("--cases", "train-lenet6")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("there is no case 'train-lenet6'", unknown.stderr)

    def test_another_build_is_the_only_peer(self):
        before = self.program.parent / "before"
        before.mkdir()
        slower = before / "neurim"
        slower.write_text(PROGRAM.replace("0.01 if ours", "0.03 if ours"))
        slower.chmod(0o755)
        run, rows = self.compare("--cases", "train-resnet50-b16,infer-resnet50-b1", "--against", before)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([(row["case"], row["peer"], row["ratio"]) for row in rows[:-1]],
                         [("train-resnet50-b16", "neurim before", 3), ("infer-resnet50-b1", "neurim before", 3)])
        self.assertEqual(rows[-1], {"against": str(before), "cases": 2, "geometric_mean": 3, "least": 3, "most": 3})
        self.assertEqual(self.kept(), rows[:-1])
        wrong, _ = self.compare("--against", self.results)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("holds no program neurim", wrong.stderr)


class Page(unittest.TestCase):
    def page(self, *files):
        with tempfile.TemporaryDirectory() as home:
            for i, rows in enumerate(files):
                Path(home, f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            target = Path(home, "page.md")
            run = subprocess.run([sys.executable, ROOT / "scripts" / "benchmark_page", home, target],
                                 capture_output=True, text=True, check=False)
            return run, target.read_text() if target.exists() else None

    def row(self, case, peer, ours, theirs, ratios, **more):
        return {"case": case, "peer": peer, "peer_version": "9.8", "neurim_version": "0.1.0", "commit": "abc1234",
                "machine": "2 x CPU", "threads": 2, "date": "2026-11-21", "neurim": ours, "peer_images_per_second": theirs,
                "ratio": sorted(ratios)[len(ratios) // 2], "ratios": ratios, "foreign_cpu": 0.014, "neurim_peak_rss_mib": 233,
                "peer_peak_rss_mib": 1921, **more}

    def test_all_rows_and_the_last_of_each(self):
        train = self.row("train-resnet18-b16", "torch eager", 21.04, 10.52, [2.0, 1.9, 2.25])
        old = self.row("infer-resnet18-b1", "onnxruntime", 1.0, 2.0, [0.5])
        lost = self.row("infer-resnet18-b1", "onnxruntime", 1234.5, 2469, [0.5, 0.45, 0.55])
        later = self.row("infer-vgg11_bn-b32", "onnxruntime", 50, 25, [2.0])
        other = self.row("infer-resnet18-b1", "openvino", 3, 3, [1.0], machine="4 x CPU")
        run, page = self.page([old, train], [later, lost, other])
        self.assertEqual(run.returncode, 0, run.stderr)
        machines = page.split("\n## ")
        self.assertEqual([part.splitlines()[0] for part in machines[1:]], ["2 x CPU, 2 threads", "4 x CPU, 2 threads"])
        rows = [line for line in machines[1].splitlines() if line.startswith(("| training", "| inference"))]
        self.assertEqual(rows, [f"| {start} | 233 / 1,921 | 1% | abc1234 | 2026-11-21 |" for start in (
            "training resnet18, batch 16 | 21.0 | torch eager 9.8 | 10.5 | 2.00 (1.90–2.25)",
            "inference resnet18, batch 1 | 1,234 | onnxruntime 9.8 | 2,469 | 0.50 (0.45–0.55)",
            "inference vgg11_bn, batch 32 | 50.0 | onnxruntime 9.8 | 25.0 | 2.00 (2.00–2.00)")])
        self.assertIn("- Training beside torch eager: ahead in 1 of 1 cases, geometric mean of the ratios 2.00\n", machines[1])
        self.assertIn("- Inference beside onnxruntime: ahead in 1 of 2 cases, geometric mean of the ratios 1.00\n", machines[1])
        self.assertIn("openvino 9.8", machines[2])

    def test_nothing_measured(self):
        run, page = self.page()
        self.assertEqual((run.returncode, page), (1, None))
        self.assertIn("run benchmarks/compare first", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
