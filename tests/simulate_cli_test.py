"""The command that predicts how training scales: the machines, the table, JSON, published steps, and what it refuses."""
import json
import re
import shlex
import unittest

from command import neurim

RESNET = ["machine=eos-dfw", "params=25.6e6", "gradient_bits=16", "bucket_mb=64", "overlap=false", "measured=8:400:55.802,64:50:10.180"]
GPT = ["machine=eos-dfw", "params=175e9", "gradient_bits=16", "bucket_mb=100", "pipeline=8", "virtual_stages=12", "tensor=4", "boundary_mb=12.6",
       "zero=1", "measured=512:128:11053.9"]
PLAIN = ["machine=dgx-a100", "devices=8", "params=1e6", "batch=4", "sample_ms=1"]


def events(*words):
    run = neurim("simulate", *words, "--json")
    assert run.returncode == 0, run
    return [json.loads(line) for line in run.stdout.splitlines()]


class Simulate(unittest.TestCase):
    def refused(self, *words):
        run = neurim("simulate", *words)
        self.assertEqual((run.returncode, run.stdout, len(run.stderr.splitlines())), (2, "", 1), run)
        return run.stderr

    def instead(self, *options):
        names = {option.split("=")[0] for option in options}
        return [word for word in PLAIN if word.split("=")[0] not in names] + list(options)

    def test_machines_are_listed(self):
        said = neurim("simulate")
        self.assertEqual(said.returncode, 0, said)
        self.assertEqual(neurim("simulate", "list=true").stdout, said.stdout)
        *machines, summary = events()
        self.assertEqual(summary, {"event": "summary", "machines": len(machines)})
        names = [machine["name"] for machine in machines]
        self.assertEqual(names, ["dgx-h100", "superpod-h100", "eos-dfw", "dgx-a100", "karolina-gpu", "barbora-gpu", "barbora-cpu"])
        for machine in machines:
            self.assertEqual(machine["event"], "machine")
            self.assertTrue(machine["source"] and machine["about"])
            self.assertIn(f"\n{machine['name']} ", "\n" + said.stdout)
        self.assertIn("not confirmed", machines[names.index("karolina-gpu")]["about"])

    def test_the_examples_of_the_help_run(self):
        examples = re.findall(r"^  neurim (simulate .*)$", neurim("simulate", "--help").stdout, re.MULTILINE)
        self.assertEqual(len(examples), 3)
        for example in examples:
            with self.subTest(example):
                run = neurim(*shlex.split(example))
                self.assertEqual((run.returncode, run.stderr), (0, ""), run)

    def test_the_table_has_what_the_events_have(self):
        words = ["machine=dgx-a100", "devices=1,8,64", "params=25.6e6", "batch=32", "fixed_ms=4", "sample_ms=0.28", "jitter=0.01"]
        *predictions, summary = events(*words)
        table = neurim("simulate", *words)
        rows = [line.split() for line in table.stdout.splitlines() if re.match(r" +\d", line)]
        self.assertEqual(len(rows), 3)
        for row, at in zip(rows, predictions):
            self.assertEqual((int(row[0]), int(row[1]), row[7]), (at["devices"], at["batch"], at["algorithm"]))
            self.assertAlmostEqual(float(row[2]), 1e3 * at["step_seconds"], delta=6e-4)
            self.assertAlmostEqual(float(row[4]), 100 * at["efficiency"], delta=0.06)
            self.assertAlmostEqual(float(row[5]), 100 * at["communication"], delta=0.06)
            parts = ("compute", "bubble", "waiting", "tensor_sum", "transfer", "exposed_gradient_sum")
            self.assertAlmostEqual(sum(at[f"{part}_seconds"] for part in parts), at["step_seconds"])
            self.assertAlmostEqual(at["samples_per_second"] * at["step_seconds"], at["global_batch"])
        self.assertEqual((predictions[0]["efficiency"], predictions[0]["communication"], predictions[0]["algorithm"]), (1, 0, "none"))
        self.assertEqual((summary["machine"], summary["predictions"], summary["ideal_speedup"]), ("dgx-a100", 3, 64))
        self.assertTrue(0.5 * 64 < summary["speedup"] < 64)
        self.assertIn("from 1 to 64 devices: ", table.stdout)
        self.assertEqual(neurim("simulate", *words, "--quiet").stdout, "")

    def test_published_steps(self):
        """MLPerf Training: ResNet-50 of v4.0 (NVIDIA, eos_n316), GPT-3 175B of v3.1 (NVIDIA, eos-dfw_n1344)."""
        (step, _) = events(*RESNET, "devices=2528", "batch=16")
        self.assertAlmostEqual(step["step_seconds"] / 5.803e-3, 1, delta=0.1)
        (step, summary) = events(*GPT, "devices=10752", "global_batch=2688", "weight_bytes=2", "state_bytes=12")
        self.assertEqual((step["copies"], step["batch"], step["micro_batches"], step["nodes"]), (336, 8, 8, 1344))
        self.assertAlmostEqual(step["step_seconds"] / 0.9296, 1, delta=0.1)
        self.assertAlmostEqual(step["bubble_seconds"], 7 / 12 * summary["sample_seconds"])
        self.assertTrue(step["fits"])
        self.assertEqual(step["state_memory_bytes"], 175e9 / 32 * 12 / 336)

    def test_batches_and_own_links(self):
        first, second, _ = events(*self.instead("devices=8,16", "batch=auto"), "global_batch=32")
        self.assertEqual([at["batch"] for at in (first, second)], [4, 2])
        own = ["node_devices=2", "node_gbs=10", "node_us=5", "network_gbs=1", "network_us=20", "devices=4", "params=1e6", "batch=4", "step_ms=8"]
        (step, summary) = events(*own, "overlap=false")
        self.assertEqual((summary["machine"], summary["sample_seconds"]), ("own", 0.002))
        self.assertEqual(step["algorithm"], "ring")
        self.assertAlmostEqual(step["exposed_gradient_sum_seconds"], 4 * 5e-6 + 2 * 20e-6 + 1.5 * 4e6 / 1e9)
        slower = events(*self.instead("devices=16"), "network_gbs=1")[0]
        self.assertGreater(slower["step_seconds"], 1.1 * events(*self.instead("devices=16"))[0]["step_seconds"])
        self.assertIn("! more than the 0.01 GB", neurim("simulate", *PLAIN, "memory_gb=0.01").stdout)

    def test_what_is_refused(self):
        self.assertIn("did you mean 'dgx-a100'", self.refused(*self.instead("machine=dgx-a10")))
        self.assertIn("known are dgx-h100, superpod-h100", self.refused(*self.instead("machine=frontier")))
        self.assertIn("machine is missing", self.refused(*PLAIN[1:]))
        self.assertIn("it is a multiple of pipeline x tensor = 2 x 3 = 6", self.refused(*PLAIN, "pipeline=2", "tensor=3"))
        self.assertIn("machine dgx-h100 has 8 at most", self.refused(*self.instead("machine=dgx-h100", "devices=16")))
        for missing, said in (("params", "params is missing"), ("devices", "devices is missing"), ("batch", "give batch"), ("sample_ms", "sample_ms")):
            self.assertIn(said, self.refused(*[word for word in PLAIN if not word.startswith(f"{missing}=")]))
        self.assertIn("not both", self.refused(*PLAIN, "global_batch=8"))
        self.assertIn("multiple of 8, the copies", self.refused(*self.instead("batch=auto"), "global_batch=12"))
        self.assertIn("in one way", self.refused(*PLAIN, "step_ms=3"))
        self.assertIn("8:400:57.0", self.refused(*self.instead("sample_ms=auto"), "measured=8:4"))
        self.assertIn("params, gradient_bits", self.refused(*self.instead("sample_ms=auto", "params=1e10"), "measured=8:4:1"))
        self.assertIn("batches that differ more", self.refused(*self.instead("sample_ms=auto"), "measured=8:4:100,8:40:90"))
        self.assertIn("network_gbs", self.refused(*self.instead("machine=own")))
        for wrong, said in (("devices=8.5", "whole numbers"), ("devices=0", "whole numbers"), ("gradient_bits=8", "16 or 32"), ("zero=3", "0, 1 or 2"),
                            ("batch=0", "batch is 0"), ("microbatches=3", "multiple of microbatches = 3"), ("microbatches=0", "1 or more"),
                            ("sample_ms=-1", "sample_ms above 0"), ("params=0", "params is 0"), ("bucket_mb=0", "bucket_mb is 0"),
                            ("jitter=-1", "jitter is -1"), ("pipeline=0", "pipeline is 0"), ("node_devices=0", "node_devices is 0"),
                            ("network_gbs=-1", "network_gbs above 0"), ("memory_gb=-1", "memory_gb is -1")):
            with self.subTest(wrong):
                two_nodes = ["devices=16"] if wrong.startswith("network") else []
                self.assertIn(said, self.refused(*self.instead(wrong, *two_nodes)))


if __name__ == "__main__":
    unittest.main()
