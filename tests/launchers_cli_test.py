"""The same job under real launchers: mpirun of Open MPI and of MPICH, srun, and horovodrun's key store. What is not installed is skipped."""
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from command import NEURIM, Tensors, TrainedRun, neurim, not_sanitized

PROGRAM = pathlib.Path(os.environ["NEURIM_BUILD"]) / "tests" / "horovod_program"
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("NEURIM_RANK", "OMPI_", "PMI_", "SLURM_", "HOROVOD_"))}
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"]


class KeyStore(http.server.BaseHTTPRequestHandler):
    """What horovodrun's does with PUT and GET."""
    values = {}

    def do_PUT(self):
        self.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"")

    def do_GET(self):
        value = self.values.get(self.path)
        self.answer(404 if value is None else 200, value or b"")

    def answer(self, status, value):
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm:
    """Slurm's daemons for this machine alone, in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        host = socket.gethostname().split(".")[0]
        lines = {"ClusterName": "test", "SlurmctldHost": f"{host}(127.0.0.1)", "AuthType": "auth/munge", "CryptoType": "crypto/munge",
                 "AuthInfo": f"socket={folder}/munge.socket", "SlurmUser": "root", "SlurmdUser": "root", "StateSaveLocation": f"{folder}/state",
                 "SlurmdSpoolDir": f"{folder}/spool", "SlurmctldPidFile": f"{folder}/ctld.pid", "SlurmdPidFile": f"{folder}/d.pid",
                 "SlurmctldLogFile": f"{folder}/ctld.log", "SlurmdLogFile": f"{folder}/d.log", "ProctrackType": "proctrack/linuxproc",
                 "TaskPlugin": "task/none", "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU",
                 "SlurmctldPort": free_port(), "SlurmdPort": free_port(), "MpiDefault": "none", "ReturnToService": 2,
                 "NodeName": f"{host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN",
                 "PartitionName": "main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8"}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self.file = folder / "slurm.conf"
        self.file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.environment = {**PLAIN, "SLURM_CONF": str(self.file)}
        self.daemons = [self.start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
                                   f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed")]
        while not (folder / "munge.socket").exists() and self.daemons[0].poll() is None:
            time.sleep(0.05)
        self.daemons += [self.start("slurmctld", "-D", "-f", self.file), self.start("slurmd", "-D", "-f", self.file)]

    def start(self, *words):
        return subprocess.Popen(list(map(str, words)), env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready(self):
        """Whether it gives out nodes; waits for some seconds."""
        for _ in range(100):
            said = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=self.environment, capture_output=True, text=True, check=False).stdout
            if "idle" in said:
                return True
            time.sleep(0.1)
        return False

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(timeout=30)


@not_sanitized
class Launchers(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run = neurim("launch", "np=2", "--", *cls.words, "name=two")
        assert run.returncode == 0, run
        started = [subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, text=True, env={**PLAIN, **place}) for place in cls.horovod_places()]
        cls.hash = started[0].communicate(timeout=60)[0].split()[-1]
        started[1].communicate(timeout=60)

    @staticmethod
    def horovod_places():
        address = f"127.0.0.1:{free_port()}"
        return [{"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": str(rank), "HOROVOD_LOCAL_SIZE": "2", "NEURIM_ADDRESS": address}
                for rank in range(2)]

    def same_weights(self, name):
        a, b = (Tensors(self.root / "runs" / run / "weights" / "last.safetensors") for run in ("two", name))
        for tensor in a.header:
            if tensor != "__metadata__":
                self.assertEqual(a[tensor], b[tensor], tensor)

    def under(self, name, launcher, backend, environment=PLAIN, two=("2",)):
        """Runs the program and a training of two processes under a launcher."""
        if not shutil.which(launcher[0]):
            self.skipTest(f"{launcher[0]} is not installed")
        run = subprocess.run([*launcher, *two, PROGRAM], env=environment, capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn(f"2 ranks by {backend}: {self.hash}", run.stdout)
        run = subprocess.run([*launcher, *two, NEURIM, *map(str, self.words), f"name={name}"], env=environment, capture_output=True, text=True, timeout=90,
                             check=False)
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual(run.stdout.count("Saved "), 1)
        self.same_weights(name)

    def test_open_mpi(self):
        self.under("openmpi", OPEN_MPI, "mpi")

    def test_mpich(self):
        self.under("mpich", ["mpirun.mpich", "-np"], "mpi")

    def test_mpirun_with_an_address(self):
        self.under("tcp", OPEN_MPI, "tcp", {**PLAIN, "NEURIM_ADDRESS": f"127.0.0.1:{free_port()}"})

    def test_srun(self):
        if os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "srun"))):
            self.skipTest("Slurm is not installed, or cannot be started")
        with tempfile.TemporaryDirectory() as folder:
            slurm = Slurm(pathlib.Path(folder))
            try:
                if not slurm.ready():
                    self.skipTest("Slurm does not start here")
                self.under("srun", ["srun", "--overcommit", "-n"], "tcp", slurm.environment)
            finally:
                slurm.stop()

    def test_horovodrun_leaves_an_address(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), KeyStore)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            places = [{**place, "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.server_port)}
                      for place in self.horovod_places()]
            for place in places:
                del place["NEURIM_ADDRESS"]
            ranks = [subprocess.Popen([PROGRAM], env={**PLAIN, **place}, stdout=subprocess.PIPE, text=True) for place in places]
            said = [rank.communicate(timeout=60)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0])
            self.assertIn(f"2 ranks by tcp: {self.hash}", said[0])
        finally:
            server.shutdown()
            server.server_close()

    def test_timeline_and_stalls(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "timeline.json"
            places = [{**place, "HOROVOD_TIMELINE": str(file)} for place in self.horovod_places()]
            ranks = [subprocess.Popen([PROGRAM], env={**PLAIN, **place}, stdout=subprocess.PIPE, text=True) for place in places]
            for rank in ranks:
                rank.communicate(timeout=60)
            events = json.loads(file.read_text())
            self.assertIn("all_reduce sum", {event["name"] for event in events})
            self.assertTrue(all(event["ph"] == "X" and event["dur"] >= 0 for event in events))
            stalls = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.3", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "1.5"}
            first, second = [subprocess.Popen([PROGRAM], env={**PLAIN, **place, **stalls}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                             for place in self.horovod_places()]
            second.kill()
            said = first.communicate(timeout=60)[1]
            self.assertEqual(first.returncode, 1)
            self.assertRegex(said, "meets the others|connection is lost|nothing came in time")
            second.communicate()


if __name__ == "__main__":
    unittest.main()
