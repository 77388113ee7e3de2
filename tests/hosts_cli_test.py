"""A job on several machines, which are network namespaces of this one: what another machine would be but for its files."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from command import NEURIM, Tensors, TrainedRun, neurim, not_sanitized

NAMES = [f"nrm{os.getpid() % 10000}{end}" for end in "ab"]
HOSTS = ["10.213.7.1", "10.213.7.2"]


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip") and ip("netns", "list", check=False).returncode == 0, "needs root and network namespaces")
@not_sanitized
class Hosts(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.words.append("threads=1")  # one machine shares its threads among processes, two machines have more of them
        for name in NAMES:
            cls.addClassCleanup(ip, "netns", "del", name, check=False)
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                raise unittest.SkipTest(f"the system gives no network namespace: {error.stderr}")
        ip("link", "add", "eth7", "netns", NAMES[0], "type", "veth", "peer", "name", "eth7", "netns", NAMES[1])
        for name, host in zip(NAMES, HOSTS):
            for words in (["addr", "add", f"{host}/24", "dev", "eth7"], ["link", "set", "eth7", "up"], ["link", "set", "lo", "up"]):
                ip("-n", name, *words)
        # What ssh is elsewhere: the machine's name, and a line for a shell there.
        cls.shell = cls.root / "shell"
        cases = "".join(f"{host}) space={name};; " for name, host in zip(NAMES, HOSTS))
        cls.shell.write_text(f'#!/bin/sh\ncase "$1" in {cases} *) echo "shell: cannot resolve $1" >&2; exit 255;; esac\nshift\nexec ip netns exec "$space" sh -c "$*"\n')
        cls.shell.chmod(0o755)

    def launch(self, hosts, *words):
        return ["launch", f"hosts={hosts}", f"remote_shell={self.shell}", "timeout=20", "--", *map(str, words)]

    def weights(self, run):
        tensors = Tensors(self.root / "runs" / run / "weights" / "last.safetensors")
        return {name: tensors[name] for name in tensors.header if name != "__metadata__"}

    def test_a_job_on_two_machines_is_that_on_one(self):
        here = neurim("launch", "np=2", "--", *self.words, "name=here")
        self.assertEqual(here.returncode, 0, here)
        file = self.root / "hosts"
        file.write_text(f"# the machines\n{HOSTS[0]} slots=1\n{HOSTS[1]}:1\n")
        for name, hosts in (("two", ",".join(HOSTS)), ("file", file)):
            run = neurim(*self.launch(hosts, *self.words, f"name={name}", "--json"), env={**os.environ, "NEURIM_SHARED_MEMORY": "0"})
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(json.loads(run.stdout.splitlines()[-1])["event"], "summary")
            self.assertEqual(self.weights("here"), self.weights(name))

    def test_signals_reach_the_other_machines(self):
        words = [word for word in self.words if not word.startswith("epochs")] + ["epochs=3000"]
        job = subprocess.Popen([NEURIM, *self.launch(",".join(HOSTS), *words, "name=stopped", "--json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in job.stdout:
            if '"event":"epoch"' in line:
                break
        job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=60)[1]
        self.assertEqual(job.returncode, 75, said)
        self.assertTrue((self.root / "runs" / "stopped" / "weights" / "last.safetensors").exists())

    def test_nobody_stays_where_the_launcher_is_killed(self):
        words = [word for word in self.words if not word.startswith("epochs")] + ["epochs=3000", "name=killed", "--json"]
        job = subprocess.Popen([NEURIM, *self.launch(",".join(HOSTS), *words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in job.stdout:
            if '"event":"epoch"' in line:
                break
        job.kill()
        job.wait(timeout=30)
        job.stdout.read()  # ends when those who write to it have
        job.stdout.close()
        self.assertEqual(subprocess.run(["pgrep", "-f", "name=killed"], capture_output=True, text=True, check=False).stdout, "")

    def test_wrong_machines(self):
        cases = [("nowhere:1,nowhere2:1", 1, "cannot resolve nowhere"), ("a:x", 2, "'a:x' is no machine"), (",", 2, "names no machine"),
                 ("-oProxyCommand=x", 2, "is no machine")]
        for hosts, code, said in cases:
            run = neurim(*self.launch(hosts, *self.words, "name=wrong"))
            self.assertEqual(run.returncode, code, run)
            self.assertIn(said, run.stderr)
        run = neurim("launch", "np=3", "hosts=a:1,b:1", "--", *self.words)
        self.assertEqual(run.returncode, 2, run)
        self.assertIn("np is 3, and hosts has room for 2 processes", run.stderr)
        run = neurim("launch", "max_restarts=1", "hosts=a:1,localhost:1", "--", *self.words)
        self.assertEqual(run.returncode, 2, run)
        self.assertIn("name it first in hosts", run.stderr)


if __name__ == "__main__":
    unittest.main()
