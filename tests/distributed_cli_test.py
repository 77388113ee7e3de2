"""Training with several processes: that it is the training of one, whoever starts it, and what becomes of it where a process is lost."""
import json
import os
import signal
import socket
import subprocess
import time
import unittest

from command import NEURIM, Tensors, TrainedRun, neurim, not_sanitized

PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("NEURIM_RANK", "OMPI_", "PMI_", "SLURM_", "HOROVOD_"))}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@not_sanitized
class Distributed(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = json.loads(cls.result.stdout.splitlines()[-1])
        run = neurim("launch", "np=2", "--", *cls.words, "name=two", "--json")
        assert run.returncode == 0, run
        cls.together = json.loads(run.stdout.splitlines()[-1])
        cls.scaling = next(event for event in map(json.loads, run.stdout.splitlines()) if event["event"] == "scaling")

    def weights(self, run, name="last"):
        return Tensors(self.root / "runs" / run / "weights" / f"{name}.safetensors")

    def same(self, one, other, exactly):
        a, b = self.weights(one), self.weights(other)
        names = [name for name in a.header if name != "__metadata__"]
        self.assertEqual(names, [name for name in b.header if name != "__metadata__"])
        for name in names:
            if exactly:
                self.assertEqual(a[name], b[name], name)
            for x, y in zip(a[name], b[name]):
                self.assertAlmostEqual(x, y, delta=1e-5)

    def started(self, places, *words):
        """The processes of a job that a launcher other than ours starts; places: the variables of each."""
        return [subprocess.Popen([NEURIM, *map(str, words)], env={**PLAIN, **place}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for place in places]

    def test_two_and_four_processes_are_one(self):
        for key in ("loss", "top1", "f1_macro"):
            self.assertAlmostEqual(self.together[key], self.alone[key], delta=1e-6)
        self.same("train", "two", exactly=False)
        self.assertEqual((self.scaling["processes"], len(self.scaling["computing_seconds"]), len(self.scaling["hosts"])), (2, 2, 2))
        self.assertTrue(0 < self.scaling["efficiency"] <= 1 and self.scaling["imbalance"] >= 1, self.scaling)
        self.assertAlmostEqual(self.scaling["efficiency"], 1 - self.scaling["communication"])
        for most, planned in zip(self.scaling["memory_mib"], self.scaling["planned_memory_mib"], strict=True):
            self.assertTrue(10 < planned < 2 * most and most < 2 * planned, self.scaling)
        run = neurim("launch", "np=4", "--", *self.words, "name=four")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run)
        self.assertIn("4 processes of", run.stdout)
        self.assertEqual(run.stdout.count("Saved "), 1)
        self.same("train", "four", exactly=False)
        self.assertFalse((self.root / "runs" / "four2").exists())
        steps = [(self.root / "runs" / name / "results.csv").read_text().splitlines()[-1].split(",")[:2] for name in ("train", "two", "four")]
        self.assertEqual(steps, [steps[0]] * 3)

    def test_whoever_starts_them_they_come_to_the_same(self):
        kinds = {"torchrun": lambda r, port: {"RANK": r, "WORLD_SIZE": "2", "LOCAL_RANK": r, "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                             "MASTER_PORT": str(port - 1)},
                 "openmpi": lambda r, port: {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": r,
                                             "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "NEURIM_ADDRESS": f"127.0.0.1:{port}"},
                 "horovod": lambda r, port: {"HOROVOD_RANK": r, "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": r, "HOROVOD_LOCAL_SIZE": "2",
                                             "NEURIM_ADDRESS": f"127.0.0.1:{port}", "NEURIM_SECRET": "known"}}
        for name, place in kinds.items():
            with self.subTest(name):
                port = free_port()
                ranks = self.started([place(str(rank), port) for rank in range(2)], *self.words, f"name={name}")
                for rank in ranks:
                    said = rank.communicate(timeout=60)
                    self.assertEqual((rank.returncode, said[1]), (0, ""))
                self.same("two", name, exactly=True)

    def test_batches_of_several_steps_and_uneven_parts(self):
        words = [word for word in self.words if not word.startswith("batch")] + ["batch=12", "grad_accum_steps=2", "clip_grad=0.5", "opt=sgd"]
        for name, start in (("parts1", []), ("parts3", ["launch", "np=3", "--"])):
            run = neurim(*start, *words, f"name={name}")
            self.assertEqual(run.returncode, 0, run)
        self.same("parts1", "parts3", exactly=False)

    def test_the_same_bits_of_one_two_and_four(self):
        """With batch norm, MixUp, random parts of images, accumulated gradients and a last batch of two images."""
        words = ["train", f"data={self.root}/data", "model=resnet20", "imgsz=16", "batch=8", "epochs=2", "opt=sgd", "mixup=0.2", "grad_accum_steps=2",
                 "random_resized_crop=true", "deterministic=true", "plots=false", f"project={self.root}/runs"]
        for ranks in (1, 2, 4):
            run = neurim("launch", f"np={ranks}", "--", *words, f"name=bits{ranks}")
            self.assertEqual(run.returncode, 0, run)
        self.same("bits1", "bits2", exactly=True)
        self.same("bits1", "bits4", exactly=True)
        run = neurim(*words, "device=cpu,cpu", "name=bits_threads")
        self.assertEqual(run.returncode, 0, run)
        self.same("bits1", "bits_threads", exactly=True)
        for name in ("bits1", "bits_threads"):
            run = neurim("resume", self.root / "runs" / name, "epochs=3")
            self.assertEqual(run.returncode, 0, run)
        self.assertIn("2 processes", run.stdout)
        self.same("bits1", "bits_threads", exactly=True)
        self.assertEqual(neurim("val", f"model={self.root}/runs/bits_threads").returncode, 0)

    def test_devices_with_memory_of_their_own(self):
        plugin = os.path.join(os.environ["NEURIM_BUILD"], "libtest_device_plugin.so")
        for name, more in (("devices", []), ("devices_stages", ["pipeline=2"]), ("devices_zero", ["zero=2"])):
            run = neurim(*self.words, f"plugins={plugin}", "device=test:0,test:1", f"name={name}", *more)
            self.assertEqual(run.returncode, 0, run)
            self.assertIn("test:0, 2 processes", run.stdout)
            self.same("train", name, exactly=False)

    def test_ways_to_share(self):
        """What is not the bits of a plain job says what else it is."""
        def run(name, *more):
            one = neurim("launch", "np=2", "--", *self.words, f"name={name}", *more)
            self.assertEqual(one.returncode, 0, one)
            return self.root / "runs" / name
        for name, more in (("stale0", ["sync=ssp:0"]), ("zero1", ["zero=1"])):
            run(name, *more)
            self.same("two", name, exactly=True)
        run("zero2", "zero=2", "clip_grad=1")
        run("clipped", "clip_grad=1")
        self.same("zero2", "clipped", exactly=False)
        resumed = neurim("launch", "np=4", "--", "resume", self.root / "runs" / "zero2", "epochs=3")
        self.assertEqual(resumed.returncode, 0, resumed)
        reads = [line.split(",") for line in (run("stale2", "sync=ssp:2") / "reads.csv").read_text().splitlines()]
        self.assertEqual(reads[0], ["rank", "clock", "known", "own"])
        self.assertEqual({row[0] for row in reads[1:]}, {"0", "1"})
        for _, clock, known, own in reads[1:]:
            self.assertGreaterEqual(int(known), int(clock) - 2)
            self.assertEqual(int(own), int(clock) - int(known))
        for name, more in (("local", ["sync=local:2"]), ("halves", ["compress=bf16"])):
            run(name, *more)
            with self.assertRaises(AssertionError):
                self.same("two", name, exactly=True)
        run("normed", "sync_bn=true")
        self.same("two", "normed", exactly=False)  # it has no batch norm
        for more, said in ((["sync=maybe"], "known are bsp, ssp:S"), (["zero=3"], "it is 0, 1 or 2"), (["compress=i8"], "known are none, bf16, f16"),
                           (["sync=ssp:2", "zero=1"], "leave zero out"), (["sync=local:3", "deterministic=true"], "it is bsp"),
                           (["sync_bn=true", "deterministic=true"], "leave one of them out"), (["sync=ssp:1", "compress=bf16"], "leave compress out"),
                           (["deterministic=true", "pipeline=2"], "leave one of them out"), (["microbatches=8"], "microbatches is 8")):
            one = neurim(*self.words, *more)
            self.assertEqual(one.returncode, 2, one)
            self.assertIn(said, one.stderr)

    def test_models_in_parts(self):
        """Stages of a pipeline and teams that share layers, alone and with data in parts, are one process."""
        words = ["train", f"data={self.root}/data", "model=lenet5", "batch=16", "epochs=2", "opt=adamw", "clip_grad=0.5", "grad_accum_steps=2",
                 f"project={self.root}/runs"]
        def run(name, ranks, *more):
            one = neurim("launch", f"np={ranks}", "--", *words, f"name={name}", *more)
            self.assertEqual(one.returncode, 0, one)
            return one.stdout
        run("part", 1)
        self.assertRegex(run("stages2", 2, "pipeline=2"), r"stage   2 of 2: \d+ ops, \d+ % of the time")
        run("stages4", 4, "pipeline=4", "microbatches=3", "pipeline_schedule=gpipe")
        run("stages_data", 4, "pipeline=2", "microbatches=2")
        self.assertRegex(run("team2", 2, "tensor=2"), "weights of 48,120 numbers are spread over the 2 processes")
        run("team_data", 4, "tensor=2")
        for name in ("stages2", "stages4", "stages_data", "team2", "team_data"):
            self.same("part", name, exactly=False)
        for name in ("part", "stages2", "team2"):
            one = neurim("launch", "np=1" if name == "part" else "np=2", "--", "resume", self.root / "runs" / name, "epochs=3")
            self.assertEqual(one.returncode, 0, one)
        self.same("part", "stages2", exactly=False)
        self.same("part", "team2", exactly=False)
        for ranks, more, said in ((1, ["pipeline=2"], "pipeline is 2, and there is 1 process"), (3, ["tensor=2", "batch=18"], "and there are 3 processes"),
                                  (2, ["pipeline=2", "tensor=2"], "give one of them"), (2, ["pipeline=2", "zero=1"], "leave zero out"),
                                  (2, ["tensor=2", "precision=bf16"], "leave precision out"), (2, ["pipeline=2", "microbatches=0"], "microbatches is 0")):
            kept = [word for word in words if not (word.startswith("batch=") and "batch=18" in more)]
            one = neurim("launch", f"np={ranks}", "--", *kept, *more)
            self.assertEqual(one.returncode, 2, one)
            self.assertIn(said, one.stderr)

    def test_batches_that_some_ranks_have_nothing_of(self):
        words = [word for word in self.words if not word.startswith("batch")] + ["batch=20"]  # 42 images: the last batch has two
        for name, start in (("rest1", []), ("rest4", ["launch", "np=4", "--"])):
            run = neurim(*start, *words, f"name={name}")
            self.assertEqual(run.returncode, 0, run)
        self.same("rest1", "rest4", exactly=False)
        ways = {"zero1": ["zero=1"], "zero2": ["zero=2", "grad_accum_steps=2"], "ssp": ["sync=ssp:2", "grad_accum_steps=2"], "local": ["sync=local:2"],
                "stages": ["pipeline=2", "microbatches=2"], "team": ["tensor=2"], "normed": ["sync_bn=true"], "bits": ["deterministic=true"]}
        for name, more in ways.items():
            run = neurim("launch", "np=4", "--", *words, f"name=rest_{name}", *more)
            self.assertEqual((run.returncode, run.stderr), (0, ""), run)
            self.assertIn("(15 images)", run.stdout)
            self.assertNotIn("nan", run.stdout)
            if name in ("zero1", "stages", "team"):
                self.same("rest1", f"rest_{name}", exactly=False)
            run = neurim("launch", "np=2" if name in ("stages", "team") else "np=1", "--", "resume", self.root / "runs" / f"rest_{name}", "epochs=3")
            self.assertEqual(run.returncode, 0, run)

    def test_what_accumulates_is_whole_with_bounded_staleness(self):
        words = [word for word in self.words if not word.startswith("batch")] + ["batch=8", "opt=sgd", "lr=0.01", "grad_accum_steps=3"]
        for name, more in (("sums", []), ("sums0", ["sync=ssp:0"])):
            run = neurim("launch", "np=2", "--", *words, f"name={name}", *more)
            self.assertEqual(run.returncode, 0, run)
        self.same("sums", "sums0", exactly=True)

    def test_a_series_in_two_processes(self):
        table = self.root / "series.csv"
        table.write_text("value\n" + "".join(f"{(i * 7) % 13}\n" for i in range(120)))
        words = ["train", f"data={table}", "model=gru", "window=6", "batch=10", "epochs=2", "hidden_size=8", f"project={self.root}/runs"]
        for name, start in (("series1", []), ("series2", ["launch", "np=2", "--"])):
            run = neurim(*start, *words, f"name={name}")
            self.assertEqual(run.returncode, 0, run)
        self.same("series1", "series2", exactly=False)

    def lost(self, *words, after="epoch"):
        """Starts a job, and kills its last rank once some epochs are done. (exit code, stderr)"""
        job = subprocess.Popen([NEURIM, "launch", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in job.stdout:
            if after in line:
                break
        ranks = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGKILL)
        begin = time.monotonic()
        said = job.communicate(timeout=60)
        return job.returncode, said[1], time.monotonic() - begin, len(ranks)

    def test_a_lost_process_is_named_by_all_others(self):
        words = [word for word in self.words if not word.startswith(("epochs", "batch"))] + ["epochs=5000", "batch=12"]
        code, said, seconds, ranks = self.lost("np=3", "--", *words, "name=lost", "--json", after='"event":"epoch"')
        self.assertEqual((code, ranks), (1, 3), said)
        self.assertLess(seconds, 10)
        for rank in (0, 1):
            self.assertRegex(said, rf"rank {rank} \(.*\): operation \d+ \(.*\): rank 2 \(.*\): the connection is lost")
        self.assertIn("neurim launch: rank 2 was ended by signal 9", said)
        self.assertIn("at step", said)
        for rank in (0, 1):
            operations = (self.root / "runs" / "lost" / f"operations-{rank}.csv").read_text().splitlines()
            self.assertEqual(operations[0], "number,operation,bytes,begin,seconds,state")
            self.assertTrue(operations[-1].endswith("failed"), operations[-1])
            self.assertLessEqual(len(operations), 257)

    def test_a_lost_process_of_a_team_is_named(self):
        words = [word for word in self.words if not word.startswith("epochs")] + ["epochs=5000"]
        for name, more in (("team", ["tensor=2"]), ("stages", ["pipeline=2"]), ("stale", ["sync=ssp:2"])):
            code, said, _, _ = self.lost("np=2", "--", *words, f"name=lost_{name}", "--json", *more, after='"event":"epoch"')
            self.assertEqual(code, 1, said)
            self.assertRegex(said, r"rank 0 \(.*\): operation \d+ \(.*\): rank 1 \(.*\): the connection is lost: .*, at step \d+")
            operations = (self.root / "runs" / f"lost_{name}" / "operations-0.csv").read_text().splitlines()
            self.assertIn("failed", {line.split(",")[-1] for line in operations[1:]})

    def test_a_restart_loses_nothing(self):
        words = [word for word in self.words if not word.startswith("epochs")] + ["epochs=150", "plots=false"]
        code, said, _, _ = self.lost("np=2", "max_restarts=1", "--", *words, "name=again", "--json", after='"event":"epoch"')
        self.assertEqual(code, 0, said)
        self.assertIn("restart 1 of 1: going on with", said)
        run = neurim("launch", "np=2", "--", *words, "name=whole")
        self.assertEqual(run.returncode, 0, run)
        self.same("whole", "again", exactly=True)

    def test_ctrl_c_saves_and_the_job_goes_on(self):
        words = [word for word in self.words if not word.startswith("epochs")] + ["epochs=150", "plots=false"]
        job = subprocess.Popen([NEURIM, "launch", "np=2", "--", *words, "name=stopped", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in job.stdout:
            if '"event":"epoch"' in line:
                break
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130)
        for start in (["launch", "np=2", "--"],):
            run = neurim(*start, "resume", self.root / "runs" / "stopped")
            self.assertEqual(run.returncode, 0, run)
        run = neurim("launch", "np=2", "--", *words, "name=unstopped")
        self.assertEqual(run.returncode, 0, run)
        self.same("unstopped", "stopped", exactly=True)

    def test_ranks_that_are_not_alike_are_told_apart(self):
        port = free_port()
        jobs = [subprocess.Popen([NEURIM, *map(str, self.words), "name=unlike", *more], env={**PLAIN, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                 "MASTER_PORT": str(port - 1)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank, more in enumerate(([], ["lr=0.5"]))]
        for job in jobs:
            said = job.communicate(timeout=60)[1]
            self.assertEqual(job.returncode, 2, said)
            self.assertRegex(said, r"options differ: rank 0 has lr=0.001, rank 1 has lr=0.5; start all ranks alike")
        self.assertFalse((self.root / "runs" / "unlike").exists())

    def test_wrong_calls(self):
        cases = [(["launch", "np=2"], "the command is missing"),
                 (["launch", "np=0", "--", *self.words], "np is 0"),
                 (["launch", "np=2", "timeout=0", "--", *self.words], "timeout is 0"),
                 (["launch", "np=2", "--", "val", "x"], "known are train, resume and collectives"),
                 (["launch", "np=3", "--", *self.words, "name=odd"], "batch is 16, which 3 processes do not share evenly; give batch=18"),
                 (["launch", "np=2", "--", "train", f"data={self.root}/none", "model=lenet5"], "there is no such folder or file")]
        for words, said in cases:
            run = neurim(*words)
            self.assertIn(run.returncode, (2, 3), run)
            self.assertIn(said, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1, run)
        lonely = self.started([{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port() - 1), "NEURIM_TIMEOUT": "0.5"}], *self.words)[0]
        said = lonely.communicate(timeout=30)[1]
        self.assertEqual(lonely.returncode, 1, said)
        self.assertIn("1 of 2 processes came", said)
        homeless = self.started([{"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}], *self.words)[0]
        self.assertIn("set NEURIM_ADDRESS=HOST:PORT", homeless.communicate(timeout=30)[1])


if __name__ == "__main__":
    unittest.main()
