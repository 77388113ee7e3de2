"""The command that measures: peaks, plans and their distance from the roof, throughput."""
import itertools
import json
import os
import statistics
import unittest

from command import neurim


class Machine(unittest.TestCase):
    def test_fast_kernels_on_every_machine(self):
        """A library's plain loops take a thousand times as long as its kernels: no plan of a usual network has them."""
        for isa, model, mode in itertools.product(("avx512", "avx2"), ("resnet18", "mobilenet_v2", "lenet5"), ("infer", "train")):
            with self.subTest(isa=isa, model=model, mode=mode):
                run = neurim("info", model, "--plan", f"mode={mode}", "batch=2", "--json", *(() if model == "lenet5" else ("imgsz=64",)),
                             env={**os.environ, "NEURIM_ISA": isa})
                self.assertEqual(run.returncode, 0, run.stderr)
                tasks = [row for row in map(json.loads, run.stdout.splitlines()) if row["event"] == "task"]
                self.assertGreaterEqual(len(tasks), 5)
                self.assertEqual([task["op"] for task in tasks if task["kernel"] == "onednn_loops"], [])

    def test_roofline(self):
        layers = [json.loads(line) for line in neurim("info", "resnet18", "imgsz=32", "--json").stdout.splitlines()]
        layers = [layer for layer in layers if layer["event"] == "layer"]
        forward = sum(layer["multiply_adds"] for layer in layers)
        for mode, precision, expected in (("infer", "f32", 2 * forward), ("infer", "bf16", 2 * forward),
                                          ("train", "f32", 2 * (3 * forward - layers[0]["multiply_adds"]))):
            run = neurim("info", "resnet18", "--plan", "--roofline", f"mode={mode}", f"precision={precision}", "imgsz=32", "batch=2", "threads=2", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            rows = [json.loads(line) for line in run.stdout.splitlines()]
            peaks, = (row for row in rows if row["event"] == "peaks")
            self.assertEqual(peaks["threads"], 2)
            rates = {level["name"]: level["read_bytes_per_second"] for level in peaks["memory"]}
            suffix = "_operations_per_second"
            operations = {key.removesuffix(suffix).replace("_", " "): rate for key, rate in peaks.items() if key.endswith(suffix)}
            self.assertIn("fp32", operations)
            tasks = [row for row in rows if row["event"] == "task"]
            for task in tasks:
                least = (2 * task["multiply_adds"] / operations[task["bound"]] if task["bound"] in operations
                         else task["bytes"] / rates[task["bound"]])
                self.assertAlmostEqual(task["roof_ms"], 1e3 * least, delta=1e-6 * task["roof_ms"], msg=task)
                self.assertAlmostEqual(task["share"], task["roof_ms"] / task["ms"], delta=1e-6 * task["share"], msg=task)
                self.assertEqual(task["kind"] == "memory-bound", task["bound"] not in operations, task)
                self.assertIn(task["bound"], [*rates, "fp32", *(name for name in (precision, f"{precision} tiles") if name in operations)], task)
            self.assertEqual(sum(task["multiply_adds"] for task in tasks), expected)
            self.assertIn([2, 64, 8, 8], [shape for task in tasks for shape in task["in"]])
            kinds = {row["kind"]: row for row in rows if row["event"] == "kind"}
            self.assertEqual(set(kinds), {task["kind"] for task in tasks} | {"all"})
            for name, kind in kinds.items():
                own = [task for task in tasks if name in ("all", task["kind"])]
                self.assertEqual(kind["tasks"], len(own))
                self.assertEqual(kind["multiply_adds"], sum(task["multiply_adds"] for task in own))
                self.assertAlmostEqual(kind["ms"], sum(task["ms"] for task in own), delta=1e-6 * kind["ms"])
            self.assertRegex(run.stderr, r"(?m)^  2 threads at once: fp32 \d+(, [a-z]+\d+( tiles)? \d+)* GFLOP/s, .*DRAM \d+\.\d GB/s$")
            self.assertRegex(run.stderr, r"(?m)^  all +%d " % len(tasks))
        alone = neurim("info", "resnet18", "--roofline")
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        self.assertIn("--plan --roofline", alone.stderr)

    def test_doctor(self):
        told = json.loads(neurim("doctor", "--json").stdout)
        self.assertNotIn("peaks", told)
        run = neurim("doctor", "--bench", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        measured = json.loads(run.stdout)
        self.assertEqual(told["caches"], measured["caches"])
        self.assertEqual([peaks["threads"] for peaks in measured["peaks"]],
                         [1, measured["threads"]] if measured["threads"] > 1 else [1])
        for peaks in measured["peaks"]:
            rates = {one["name"]: one["operations_per_second"] for one in peaks["arithmetic"]}
            self.assertGreater(rates["fp32"], 1e8)
            self.assertEqual(peaks["memory"][-1]["name"], "DRAM")
            for level, cache in zip(peaks["memory"], measured["caches"]):
                self.assertEqual(level["name"], f"L{cache['level']}")
                copies = -(-peaks["threads"] // min(peaks["threads"], cache["cpus"]))
                self.assertEqual(level["capacity_bytes"], copies * cache["bytes"])
                self.assertGreater(level["read_bytes_per_second"], 1e7)
        self.assertGreater(measured["page_fault_seconds"], 0)

    def test_benchmark(self):
        run = neurim("benchmark", "lenet5", "mode=train", "batch=4", "seconds=0.05", "rounds=2", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        summary = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(len(summary["samples"]), 2)
        self.assertAlmostEqual(summary["images_per_second"], statistics.median(summary["samples"]))
        self.assertEqual(set(summary["latency_ms"]), {"p50", "p90", "p99"})
        for key in ("peak_rss_mib", "threads", "precision"):
            self.assertIn(key, summary)

    def test_benchmark_under_load(self):
        words = ["benchmark", "lenet5", "seconds=0.2", "min_queries=20", "samples=16", "--json"]
        for scenario in ("single-stream", "multi-stream", "offline"):
            run = neurim(*words, f"scenario={scenario}")
            self.assertEqual(run.returncode, 0, run)
            summary = json.loads(run.stdout.splitlines()[-1])
            self.assertEqual((summary["scenario"], summary["images"]), (scenario, "16 drawn images"))
            self.assertGreaterEqual(summary["samples"], 20)
            latency = summary["latency_ms"]
            self.assertLessEqual(latency["p50"], latency["p99.9"])
        calm = neurim(*words, "scenario=server", "target_qps=20", "target_latency=60000")
        self.assertEqual(calm.returncode, 0, calm)
        self.assertEqual(json.loads(calm.stdout.splitlines()[-1])["target_qps"], 20)
        flood = neurim(*words, "scenario=server", "target_qps=1000000", "target_latency=0.0001")
        self.assertEqual((flood.returncode, json.loads(flood.stdout.splitlines()[-1])["valid"]), (5, False), flood)
        for wrong, said in ((["scenario=best"], "single-stream, multi-stream"), (["target_qps=5"], "is for scenario"),
                            (["scenario=offline", "target_qps=5"], "scenario=server"), (["scenario=single-stream", "batch=4"], "one image at a time"),
                            (["scenario=offline", "mode=train"], "mode=infer"), (["scenario=offline", "accuracy=true"], "give data=")):
            run = neurim("benchmark", "lenet5", *wrong)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn(said, run.stderr)

    def test_benchmark_serves(self):
        run = neurim("benchmark", "lenet5", "batch=2", "serve=true", input="go bs2 0.02\ngo bs2 0.01\nquit\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        hello, first, second, last = map(json.loads, run.stdout.splitlines())
        self.assertEqual((hello["ready"], hello["keys"]), (1, {"bs2": 2}))
        self.assertTrue(first["times"] and second["times"])
        self.assertGreater(last["peak_rss_mib"], 1)


if __name__ == "__main__":
    unittest.main()
