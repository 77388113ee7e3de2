"""`neurim board`: who may ask, what it tells, and that curves grow."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from command import NEURIM, neurim


def epoch(number, **more):
    return json.dumps({"event": "epoch", "epoch": number, "val_loss": 1 / number, "top1": 1 - 1 / number, **more}) + "\n"


class Board(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name, "runs")
        for name, model in (("one", "lenet5"), ("deep/er/<b>two", "resnet18")):
            folder = cls.root / name
            folder.mkdir(parents=True)
            (folder / "args.yaml").write_text(f"data: photos\nmodel: {model}\nepochs: 9\n")
            (folder / "metrics.jsonl").write_text('{"event":"start"}\n' + "".join(epoch(i) for i in (1, 2, 3)))
            (folder / "results.png").write_bytes(b"\x89PNG")
            (folder / "secret.key").write_text("no")
        (cls.root / "one" / "report.html").write_text("<script>alert(1)</script>")
        Path(cls.home.name, "outside.txt").write_text("no")
        (cls.root / "one" / "link.txt").symlink_to(Path(cls.home.name, "outside.txt"))
        cls.process = subprocess.Popen([NEURIM, "board", cls.root, "port=0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cls.said = json.loads(cls.process.stdout.readline())
        cls.token = cls.said["address"].split("token=")[1]

    @classmethod
    def tearDownClass(cls):
        cls.process.send_signal(signal.SIGINT)
        cls.process.communicate(timeout=20)
        cls.home.cleanup()
        assert cls.process.returncode == 0, cls.process.returncode

    def get(self, path, headers=None, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.said['port']}{path}", method=method,
                                         headers={"Authorization": f"Bearer {self.token}"} if headers is None else headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.status, reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def json(self, path):
        status, body, _ = self.get(path)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_only_who_has_the_token_is_answered(self):
        for path in ("/", "/api/runs", "/board.js", "/file?run=one&path=results.png", "/none", f"/?token={self.token[:-1]}", "/?token="):
            for headers in ({}, {"Authorization": "Bearer 0"}, {"Cookie": "neurim_board=0"}):
                status, body, _ = self.get(path, headers)
                self.assertEqual(status, 401, (path, headers))
                self.assertNotIn(b"lenet5", body)
        self.assertEqual(self.get("/api/runs", {"Cookie": f"a=b; neurim_board={self.token}"})[0], 200)
        bearer = {"Authorization": f"Bearer {self.token}"}
        self.assertEqual(self.get("/", {**bearer, "Host": "evil.example"})[0], 403)
        self.assertEqual(self.get("/", {**bearer, "Host": "localhost.evil.example:80"})[0], 403)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get("/api/runs", method=method)[0], 405)

    def test_the_first_address_gives_a_cookie(self):
        connection = socket.create_connection(("127.0.0.1", self.said["port"]), timeout=20)
        self.addCleanup(connection.close)
        connection.sendall(f"GET /?token={self.token} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        reply = b""
        while part := connection.recv(4096):
            reply += part
        head = reply.decode().split("\r\n")
        self.assertIn("303", head[0])
        self.assertIn("Location: /", head)
        self.assertIn(f"Set-Cookie: neurim_board={self.token}; HttpOnly; SameSite=Strict; Path=/", head)

    def test_it_listens_on_this_machine_alone(self):
        with open("/proc/net/tcp", encoding="ascii") as file:
            addresses = [line.split()[1] for line in file.readlines()[1:] if line.split()[3] == "0A"]
        port = f":{self.said['port']:04X}"
        self.assertEqual([one for one in addresses if one.endswith(port)], [f"0100007F{port}"])

    def test_pages_load_nothing_from_elsewhere(self):
        for path in ("/", "/board.js", "/board.css"):
            status, body, headers = self.get(path)
            self.assertEqual(status, 200)
            self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
            addresses = body.decode().replace("http://www.w3.org/2000/svg", "")
            self.assertNotIn("http", addresses)
        page = self.get("/")[1].decode()
        self.assertNotIn("onclick", page)
        self.assertNotIn("<style", page)

    def test_runs_and_curves_that_grow(self):
        runs = {run["name"]: run for run in self.json("/api/runs")["runs"]}
        self.assertEqual(set(runs), {"one", "deep/er/<b>two"})
        self.assertEqual((runs["one"]["model"], runs["one"]["epochs"], runs["one"]["last"]["epoch"]), ("lenet5", "9", 3))
        name = urllib.request.quote("deep/er/<b>two")
        curves = self.json(f"/api/curves?run={name}")["curves"]
        self.assertEqual(curves["val_loss"], {"x": [1, 2, 3], "y": [1, 0.5, 1 / 3]})
        log = self.root / "deep/er/<b>two" / "metrics.jsonl"
        with open(log, "a", encoding="utf-8") as file:
            line = epoch(4)
            file.write(line[:20])
            file.flush()
            self.assertEqual(self.json(f"/api/curves?run={name}&after=3")["curves"]["val_loss"], {"x": [], "y": []})
            file.write(line[20:])
            file.flush()
            self.assertEqual(self.json(f"/api/curves?run={name}&after=3")["curves"]["val_loss"], {"x": [4], "y": [0.25]})
        log.write_text(epoch(1))  # begun anew
        self.assertEqual(self.json(f"/api/curves?run={name}")["curves"]["val_loss"], {"x": [1], "y": [1]})
        log.write_text("".join(epoch(i) for i in range(1, 20001)))
        points = self.json(f"/api/curves?run={name}")["curves"]["val_loss"]["x"]
        self.assertLessEqual(len(points), 4096)
        steps = {b - a for a, b in zip(points, points[1:])}
        self.assertEqual((points[0], len(steps)), (1, 1))
        log.write_text("".join(epoch(i) for i in (1, 2, 3)))

    def test_only_files_of_runs_are_shown(self):
        about = self.json("/api/run?run=one")
        self.assertEqual(about["files"], ["report.html", "results.png"])
        self.assertEqual(about["options"]["model"], "lenet5")
        self.assertEqual(self.get("/file?run=one&path=results.png")[1], b"\x89PNG")
        status, _, headers = self.get("/file?run=one&path=report.html")
        self.assertEqual(status, 200)
        self.assertIn("sandbox", headers["Content-Security-Policy"])
        outside = os.path.join(self.home.name, "outside.txt")
        for path in ("secret.key", "args.yaml", "link.txt", "../../outside.txt", outside, "../one/results.png/../../../outside.txt", "", "%2e%2e/%2e%2e/outside.txt"):
            status, body, _ = self.get(f"/file?run=one&path={urllib.request.quote(path, safe='%')}")
            self.assertEqual(status, 404, path)
            self.assertNotIn(self.home.name.encode(), body)
        for run in ("none", "..", "../runs/one", "", "deep", str(self.root / "one")):
            self.assertEqual(self.get(f"/api/curves?run={urllib.request.quote(run)}")[0], 404, run)
        self.assertEqual(self.get("/api/none?run=one")[0], 404)

    def test_bad_requests_do_not_stop_it(self):
        for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 40000 + b"\r\n\r\n", b"\0" * 100, b"GET /%zz%2 HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            connection = socket.create_connection(("127.0.0.1", self.said["port"]), timeout=20)
            with connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(4096)
                except OSError:  # it has closed the connection
                    pass
        self.assertEqual(self.get("/api/machine")[0], 200)

    def test_wrong_words(self):
        for words, code, part in ((["none"], 3, "there is no such folder"), ([str(self.root), "port=99999"], 2, "it is in [0, 65535]"),
                                  ([str(self.root), f"port={self.said['port']}"], 4, "name another one")):
            run = neurim("board", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
            self.assertIn(part, run.stderr)


if __name__ == "__main__":
    unittest.main()
