"""The folder of a run: one writer, stopping and resuming, full disks, and what stays in it."""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest
from pathlib import Path

from command import NEURIM, TrainedRun, instead, neurim, not_sanitized, on_a_full_disk, png, tensors, without_checksums


class RunFolder(TrainedRun):
    def test_what_fails_before_the_first_step_leaves_no_run(self):
        run = neurim(*self.words, "imgsz=8", "name=never")
        self.assertEqual(run.returncode, 2, run)
        self.assertIn("c2: conv2d", run.stderr)
        for words in (["val", self.folder], ["predict", f"model={self.folder}", f"source={self.root}/data/val"], ["info", "lenet5"],
                      ["benchmark", "lenet5"]):
            for size in (8, 32):
                wrong = neurim(*words, f"imgsz={size}")
                self.assertEqual((wrong.returncode, "lenet5 is made for one size of images: give imgsz=28" in wrong.stderr),
                                 (2, True), wrong)
        small = neurim("info", "squeezenet1_1", "imgsz=8")
        self.assertEqual((small.returncode, "imgsz=8 is too small for squeezenet1_1, which is made for 224: give a larger one" in small.stderr),
                         (2, True), small)
        self.assertFalse((self.root / "runs" / "never").exists())

    def stopped(self, number, name, *more):
        """A run of many epochs that gets a signal after its first; then resumed to the end."""
        words = [*instead(self.words, "epochs=12"), f"name={name}", "--json", *more]
        with subprocess.Popen([NEURIM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            process.send_signal(number)
            rest = process.communicate(timeout=60)[0]
        return process.returncode, rest

    def test_ctrl_c_is_answered_at_once_and_a_second_one_quits(self):
        words = [*instead(self.words, "model=resnet18", "batch=42", "epochs=9"), "imgsz=224", "train_imgsz=224", "name=twice", "plots=false"]
        with subprocess.Popen([NEURIM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for _ in range(600):
                if (self.root / "runs" / "twice" / "weights" / "last.opt.safetensors").exists():
                    break
                time.sleep(0.1)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)  # in the first step, which takes a while
            self.assertEqual(process.stderr.readline(), "stopping after this step and saving; Ctrl-C again quits at once\n")
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(said, f"quit; what was saved last remains, go on with: neurim resume {self.root}/runs/twice\n")

    def test_a_run_has_one_writer(self):
        words = [*instead(self.words, "epochs=100000"), "name=busy", "plots=false"]
        busy = self.root / "runs" / "busy"
        with subprocess.Popen([NEURIM, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            for other in (["resume", busy], ["resume", busy, "--dry-run"], [*words, "exist_ok=true"], [*words, "exist_ok=true", "--dry-run"]):
                run = neurim(*other)
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (4, 1), run)
                self.assertIn(f"{busy} is being written by another process; wait for it or choose another name", run.stderr)
            process.kill()
            process.communicate(timeout=60)
        self.assertEqual(neurim("resume", busy, "--dry-run").returncode, 0)

    def test_a_flipped_bit_is_found(self):
        run = self.root / "runs" / "flipped"
        shutil.copytree(self.folder, run)
        weights = run / "weights"
        draw = random.Random(1)
        for name, words, left in (("last", ["resume", run, "epochs=3", "--dry-run"], "a new run can begin with the best weights of this one"),
                                  ("last.opt", ["resume", run, "epochs=3", "--dry-run"], "a new run can begin with the best weights of this one"),
                                  ("best", ["resume", run, "epochs=3", "--dry-run"], f"the run's last weights are sound: {weights}/last.safetensors"),
                                  ("best", ["predict", f"model={run}", f"source={self.root}/data/val/dark/0.png"], "the run's last weights are sound")):
            file = weights / f"{name}.safetensors"
            good = file.read_bytes()
            size = struct.unpack("<Q", good[:8])[0]
            header = json.loads(good[8:8 + size])
            spans = [(0, 8), (8, 8 + size), *([8 + size + at for at in entry["data_offsets"]] for key, entry in header.items() if key != "__metadata__")]
            for begin, end in spans:
                with self.subTest(file=name, begin=begin):
                    bad = bytearray(good)
                    bad[draw.randrange(begin, end)] ^= 1 << draw.randrange(8)
                    file.write_bytes(bad)
                    refused = neurim(*words)
                    self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (3, 1), refused)
                    self.assertIn(f"{file}: ", refused.stderr)
                    self.assertIn(left, refused.stderr)
            file.write_bytes(good)
        self.assertEqual(neurim("resume", run, "epochs=3", "--dry-run").returncode, 0)

    def test_a_run_without_checksums_goes_on(self):
        run = self.root / "runs" / "older"
        shutil.copytree(self.folder, run)
        for file in (run / "weights").glob("*.safetensors"):
            file.write_bytes(without_checksums(file.read_bytes()))
        resumed = neurim("resume", run, "epochs=3")
        self.assertEqual(resumed.returncode, 0, resumed)
        self.assertEqual(resumed.stdout.count("has no checksum, as an earlier version of Neurim wrote it"), 2, resumed)
        self.assertIn(b"xxh64_data", (run / "weights" / "last.safetensors").read_bytes())

    def test_names_that_cannot_be_saved_are_refused_before_the_first_step(self):
        for words, said in (([b"name=\xff\xfe"], "name is "), ([b"name=ok", b"project=" + str(self.root).encode() + b"/\xff"], "project is "),
                            ([b"name=a\nb"], "name is 'a b' with control characters")):
            for more in ([], ["--dry-run"]):
                words_of = [word for word in self.words if not any(word.encode().startswith(other.split(b"=")[0] + b"=") for other in words)]
                run = subprocess.run([NEURIM.encode(), *(word.encode() for word in words_of), *words, *(word.encode() for word in more)],
                                     capture_output=True, timeout=60, check=False)
                error = run.stderr.decode(errors="replace")
                self.assertEqual((run.returncode, len(error.splitlines())), (2, 1), error)
                self.assertIn(said, error)
        self.assertEqual([path for path in os.listdir(os.fsencode(self.root / "runs")) if b"\xff" in path or b"\n" in path], [])

    def test_a_folder_in_the_place_of_a_file_is_found_before_the_first_step(self):
        for taken in ("weights/best.safetensors", "metrics.jsonl", "per_class.csv"):
            folder = self.root / "runs" / f"taken-{Path(taken).stem}"
            (folder / taken).mkdir(parents=True)
            for more in ([], ["--dry-run"]):
                run = neurim(*self.words, f"name={folder.name}", "exist_ok=true", *more)
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
                self.assertIn(f"{folder / taken}: is a folder, and the run writes a file of that name", run.stderr)
            self.assertTrue((folder / taken).is_dir())

    def test_options_without_an_effect_are_refused(self):
        for words, said in ((["opt=adamw", "momentum=0.3"], "momentum is an option of opt=sgd, and opt is adamw"),
                            (["nesterov=true"], "nesterov is an option of opt=sgd, and opt is adamw"),
                            (["warmup_epochs=0", "warmup_lr=0.1"], "warmup_lr is 0.1, which has no effect with warmup_epochs=0")):
            run = neurim(*self.words, "name=never", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn(said, run.stderr)
        self.assertFalse((self.root / "runs" / "never").exists())
        again = neurim("train", f"config={self.folder}/args.yaml", "--dry-run")  # which says all options
        self.assertEqual(again.returncode, 0, again)
        config = self.root / "options.yaml"
        config.write_text(neurim(*self.words, "--print-config").stdout)
        self.assertEqual(neurim("train", f"config={config}", "--dry-run").returncode, 0)
        run = neurim(*self.words, "freeze=3")
        self.assertEqual(run.stderr, "neurim train: there is no option 'freeze'\n")

    def contents(self, run):
        return {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}

    def test_a_run_in_an_old_folder_takes_its_place_when_it_has_learnt(self):
        run = self.root / "runs" / "replaced"
        words = [*instead(self.words, "epochs=1"), "name=replaced", "exist_ok=true"]
        self.assertEqual(neurim(*words).returncode, 0)
        (run / "notes.txt").write_text("mine")
        before = self.contents(run)
        spoilt = self.root / "spoilt-data"
        shutil.copytree(self.root / "data", spoilt)
        (spoilt / "train" / "dark" / "broken.png").write_bytes(b"x")
        for wrong, code in ((["lr=1e25", "opt=sgd"], 1), ([f"data={spoilt}", "max_bad=0"], 3), (["imgsz=8"], 2)):
            failed = neurim(*instead(words, *wrong))
            self.assertEqual(failed.returncode, code, failed)
            self.assertNotIn("is kept in", failed.stderr)
            self.assertEqual(self.contents(run), before)
        done = neurim(*instead(words, "epochs=2"), "plots=false")
        self.assertEqual(done.returncode, 0, done.stderr)
        fresh = neurim(*instead(words, "epochs=2", "name=fresh"), "plots=false")
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        names = [sorted(re.sub(r"(tfevents)\..*", r"\1", str(path)) for path in self.contents(folder)) for folder in (run, self.root / "runs" / "fresh")]
        names[0].remove("notes.txt")
        self.assertEqual(*names)
        self.assertEqual((run / "log.txt").read_text().count("neurim "), (self.root / "runs" / "fresh" / "log.txt").read_text().count("neurim "))
        self.assertEqual(len((run / "metrics.jsonl").read_text().splitlines()), 2)
        self.assertEqual(neurim("resume", run, "epochs=3").returncode, 0)

    def test_val_says_when_there_is_no_best(self):
        run = self.root / "without-best"
        shutil.copytree(self.folder, run)
        (run / "weights" / "best.safetensors").unlink()
        evaluated = neurim("val", run)
        self.assertIn("last.safetensors: the run has no best weights, so these are taken, its last ones", evaluated.stdout, evaluated)

    def test_val_writes_into_the_run(self):
        folder = self.root / "p4"
        self.assertEqual(neurim(*instead(self.words, "epochs=1", "project=p4"), "name=f", "plots=false", cwd=self.root).returncode, 0)
        run = neurim("val", "p4/f", cwd=self.root)
        self.assertIn("Saved p4/f/reports/val\n", run.stdout, run)
        self.assertIn("Saved reports/val2\n", neurim("val", "weights/best.safetensors", cwd=folder / "f").stdout)
        self.assertIn("Saved p4/f/reports/train\n", neurim("val", "p4/f", "split=train", cwd=self.root).stdout)
        self.assertIn("Saved p4/f/reports/mine\n", neurim("val", "p4/f", "name=mine", cwd=self.root).stdout)
        self.assertIn("Saved evaluated/val\n", neurim("val", "p4/f", "project=evaluated", cwd=self.root).stdout)
        self.assertEqual([path.name for path in folder.iterdir()], ["f"])
        shutil.copy(folder / "f" / "weights" / "best.safetensors", self.root / "loose.safetensors")
        self.assertIn("Saved runs/classify/reports/val\n", neurim("val", "loose.safetensors", cwd=self.root).stdout)
        wrong = neurim("val", "p4/f", "name=x/y", cwd=self.root)
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""), wrong)
        self.assertIn("name is 'x/y'", wrong.stderr)
        self.assertIn("has no test split; it has train, val\n", neurim("val", "p4/f", "split=test", cwd=self.root).stderr)
        (folder / "f" / "reports" / "mine" / "thoughts.txt").write_text("mine")
        again = neurim(*instead(self.words, "epochs=1", "project=p4"), "name=f", "plots=false", "exist_ok=true", cwd=self.root)
        self.assertEqual(again.returncode, 0, again)
        reports = folder / "f" / "reports"  # on weights that are gone
        self.assertEqual([str(path.relative_to(reports)) for path in reports.rglob("*")], ["mine", "mine/thoughts.txt"])

    def test_data_that_are_remembered_by_a_relative_path(self):
        self.assertEqual(neurim(*instead(self.words, "epochs=1", "data=data"), "name=near", "plots=false", cwd=self.root).returncode, 0)
        run = self.root / "runs" / "near"
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        evaluated = neurim("val", run, cwd=elsewhere)
        self.assertEqual(evaluated.returncode, 3, evaluated)
        self.assertIn(f"data: there is no such folder or file; {run}/weights/best.safetensors names it, relative to the folder of the training: "
                      "give data=PATH", evaluated.stderr)
        self.assertIn(f"{run}/args.yaml names it", neurim("resume", run, cwd=elsewhere).stderr)

    def test_a_closed_stdout_is_no_file_of_the_run(self):
        run = subprocess.run(["bash", "-c", 'exec "$@" >&-', "closed", NEURIM, *self.words, "name=closed", "--json"], stderr=subprocess.PIPE, text=True,
                             timeout=120, check=False)
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("stdout: cannot write", run.stderr.splitlines()[-1])
        folder = self.root / "runs" / "closed"
        self.assertNotIn('{"event"', (folder / "log.txt").read_text())
        self.assertEqual(tensors(folder / "weights" / "last.safetensors"), tensors(self.folder / "weights" / "last.safetensors"))

    def test_a_limit_of_the_size_of_files_is_a_full_disk(self):
        run = on_a_full_disk(*self.words, "name=limited", room=400)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (4, 1), run)
        self.assertIn("File too large", run.stderr)
        self.assertFalse((self.root / "runs" / "limited").exists())

    def test_ctrl_c_saves_and_resume_ends_like_an_uninterrupted_run(self):
        for number, code, precision in ((signal.SIGINT, 130, "f32"), (signal.SIGTERM, 75, "fp16")):
            whole = neurim(*instead(self.words, "epochs=12"), f"name=whole{code}", f"precision={precision}")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            name = f"stopped{code}"
            returned, rest = self.stopped(number, name, f"precision={precision}")
            self.assertEqual(returned, code, rest)
            self.assertEqual(json.loads(rest.splitlines()[-1])["event"], "stopped")
            resumed = neurim("resume", self.root / "runs" / name)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            for file in ("best.safetensors", "last.safetensors", "last.opt.safetensors"):
                self.assertEqual(tensors(self.root / "runs" / name / "weights" / file),
                                 tensors(self.root / "runs" / f"whole{code}" / "weights" / file), file)

    def test_terminals_and_batch_systems_stop_a_run_as_sigterm_does(self):
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            returned, rest = self.stopped(number, number.name, "plots=false")
            self.assertEqual((returned, json.loads(rest.splitlines()[-1])["event"]), (75, "stopped"), number)
        run = self.root / "runs" / "SIGHUP"
        with subprocess.Popen([NEURIM, "resume", run, "epochs=100000", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGXCPU)
            while process.stderr.readline() not in ("stopping after this step and saving\n", ""):
                pass
            for number in (signal.SIGXCPU, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):  # as they come when a session ends
                process.send_signal(number)
            said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, json.loads(said[0].splitlines()[-1])["event"]), (75, "stopped"), said)
        self.assertNotIn("stopping after this step and saving\n", said[1])
        self.assertEqual(neurim("resume", self.root / "runs" / "SIGUSR1").returncode, 0)
        with subprocess.Popen([NEURIM, "demo", "epochs=100000", "train_images=2", "val_images=1", f"project={self.root}/demo", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGUSR2)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)

    def test_a_run_under_nohup_goes_on_when_the_terminal_closes(self):
        words = [*instead(self.words, "epochs=12"), "name=nohup", "plots=false", "--json"]
        with subprocess.Popen(["bash", "-c", 'trap "" HUP; exec "$@"', "nohup", NEURIM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            rest = process.communicate(timeout=60)[0]
        self.assertEqual((process.returncode, json.loads(rest.splitlines()[-1])["event"]), (0, "summary"), rest)

    def test_a_run_outlives_a_terminal_that_goes_without_a_signal(self):
        screen, terminal = os.openpty()
        words = [*instead(self.words, "epochs=12"), "name=alone", "plots=false"]
        with subprocess.Popen([NEURIM, *map(str, words)], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True) as process:
            os.close(terminal)
            os.read(screen, 1)
            os.close(screen)
        self.assertEqual(process.returncode, 0)
        self.assertIn("Saved ", (self.root / "runs" / "alone" / "log.txt").read_text())

    def test_what_is_written_is_written_also_where_nobody_reads(self):
        reader, writer = os.pipe()
        os.close(reader)
        table, csv = self.root / "unread.csv", self.root / "answers.csv"
        with os.fdopen(writer, "w") as closed:
            for words, file in ((["val", self.folder, f"project={self.root}/unread"], self.root / "unread" / "val" / "per_class.csv"),
                                (["predict", self.folder, self.root / "data" / "val", f"save_csv={csv}"], csv),
                                (["data", "split", self.root / "data", f"out={table}"], table),
                                (["export", self.folder, f"output={self.root}/unread.onnx"], self.root / "unread.onnx")):
                run = subprocess.run([NEURIM, *map(str, words)], stdout=closed, stderr=subprocess.PIPE, timeout=120, check=False)
                self.assertEqual((run.returncode, run.stderr, file.is_file()), (0, b"", True), words)

    @not_sanitized
    def test_a_resumed_run_goes_on_with_the_kernels_that_it_began_with(self):
        known, own = self.root / "tuning.json", self.root / "runs" / "tuned" / "tuning.json"
        before, self.words = self.words, [*instead(self.words, "model=resnet20", "batch=14", "epochs=12"), "imgsz=32", f"tuning_file={known}"]
        self.addCleanup(setattr, self, "words", before)
        first = neurim(*instead(self.words, "epochs=1"), "tuning=on", "name=measured")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual((self.root / "runs" / "measured" / "tuning.json").read_text(), known.read_text())
        (sites,) = json.loads(known.read_text())["machines"].values()
        self.assertGreater(len(sites), 5)

        # Two files that differ whatever was measured: oneDNN's kernels, and those of the highest rank.
        onednn, by_rank = (re.sub('": ".*"', f'": "{name}"', known.read_text()) for name in ("onednn", "none of this name"))
        known.write_text(onednn)
        returned, rest = self.stopped(signal.SIGINT, "tuned", "tuning=locked")
        self.assertEqual((returned, own.read_text()), (130, onednn), rest)
        whole = neurim(*self.words, "tuning=locked", "name=tuned-whole")
        known.write_text(by_rank)
        other = neurim(*self.words, "tuning=locked", "name=tuned-otherwise")
        resumed = neurim("resume", self.root / "runs" / "tuned")
        for run in (whole, other, resumed):
            self.assertEqual(run.returncode, 0, run.stderr)
        learnt = [tensors(self.root / "runs" / name / "weights" / "last.safetensors") for name in ("tuned", "tuned-whole", "tuned-otherwise")]
        self.assertEqual(learnt[0], learnt[1])
        self.assertNotEqual(learnt[0], learnt[2])

    @not_sanitized
    def test_deterministic_runs_do_not_depend_on_the_threads(self):
        arithmetic = set()
        for model, options in (("lenet5", []), ("resnet20", ["imgsz=32", "batch=8"]), ("resnet20", ["imgsz=32", "batch=8", "precision=bf16"]),
                               ("resnet20", ["imgsz=32", "batch=8", "winograd=false"])):
            weights = set()
            for threads in (1, 2):
                name = f"{model}-{options[-1:]}-threads{threads}"
                run = neurim(*instead(self.words, f"model={model}", "epochs=1", *options), "deterministic=true", f"threads={threads}", f"name={name}",
                             "plots=false")
                self.assertEqual(run.returncode, 0, run.stderr)
                weights.add(tensors(self.root / "runs" / name / "weights" / "last.safetensors"))
            self.assertEqual(len(weights), 1, model)
            arithmetic |= weights
        self.assertEqual(len(arithmetic), 4, "an option changed nothing")

    def test_a_full_disk_ends_with_4_and_keeps_what_was_saved(self):
        before = tensors(self.folder / "weights" / "last.safetensors")
        run = on_a_full_disk("resume", self.folder, "epochs=3", room=20)
        self.assertEqual(run.returncode, 4, run)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertEqual(tensors(self.folder / "weights" / "last.safetensors"), before)
        self.assertIn(f"go on with: neurim resume {self.folder}", run.stderr)

    def test_a_full_disk_hides_no_figures(self):
        whole = neurim("val", self.folder, "--json", f"project={self.root}/runs")
        run = on_a_full_disk("val", self.folder, "--json", f"project={self.root}/nowhere")
        self.assertEqual(run.returncode, 4, run)
        *_, told, failed = map(json.loads, run.stdout.splitlines())
        kept = json.loads(whole.stdout.splitlines()[-1])
        self.assertEqual((failed["event"], failed["exit_code"], f"neurim val: {failed['message']}\n"), ("error", 4, run.stderr.splitlines(True)[-1]))
        self.assertEqual((told["run"], told["top1"], told["loss"]), ("", kept["top1"], kept["loss"]))
        self.assertIn("top1 ", run.stderr)
        self.assertEqual(list((self.root / "nowhere").iterdir()), [])
        run = on_a_full_disk("demo", "epochs=1", "train_images=1", "val_images=1", f"project={self.root}/full")
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("00000.png: cannot write: File too large; ", run.stderr)

    def test_a_full_stdout_does_not_stop_a_run(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([NEURIM, *self.words, "name=unheard", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                 check=False)
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("stdout: cannot write", run.stderr.splitlines()[-1])
        self.assertEqual(tensors(self.root / "runs" / "unheard" / "weights" / "last.safetensors"),
                         tensors(self.folder / "weights" / "last.safetensors"))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            run = subprocess.run([NEURIM, *self.words, "name=unread"], stdout=closed, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def test_a_run_that_patience_ended_stays_ended(self):
        words = [*instead(self.words, "epochs=30"), "patience=1", "lr=1e-9", "name=patient", "plots=false"]
        ended = neurim(*words)
        self.assertIn("No better top1 for 1 epochs", ended.stdout, ended.stderr)
        weights = self.root / "runs" / "patient" / "weights"
        before = tensors(weights / "last.safetensors")
        leftover = weights / f".best.safetensors.{2**22 + 1}.0.tmp"  # above what Linux numbers processes with
        leftover.touch()
        again = neurim("resume", weights.parent)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("the run has ended", again.stdout)
        self.assertEqual(tensors(weights / "last.safetensors"), before)
        self.assertEqual(again.stdout.splitlines()[-2:], ended.stdout.splitlines()[-2:])
        self.assertFalse(leftover.exists())

    def test_memory_stays_flat_over_epochs(self):
        words = [*instead(self.words, "epochs=70", "batch=8"), "name=long", "plots=false", "--json", "--quiet"]
        # the address sanitizer keeps freed memory for a while: as little as it can, or its share hides the program's
        sanitized = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}
        with subprocess.Popen([NEURIM, *map(str, words)], stdout=subprocess.PIPE, text=True, env=sanitized) as process:
            resident = []
            for line in process.stdout:
                if json.loads(line)["event"] == "epoch":
                    statm = Path(f"/proc/{process.pid}/statm").read_text()
                    resident.append(int(statm.split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20)
        self.assertEqual((process.returncode, len(resident)), (0, 70))
        self.assertLess(resident[-1] - resident[19], 3, resident)  # MiB in 50 epochs


if __name__ == "__main__":
    unittest.main()
