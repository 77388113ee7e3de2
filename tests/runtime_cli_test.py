"""The runtime for C: its names, its answers beside those of the command, its errors, and that nothing of a session stays."""
import concurrent.futures
import ctypes
import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from command import ROOT, TrainedRun, gray_png, neurim, not_sanitized

BUILD = Path(os.environ["NEURIM_BUILD"])
LIBRARY = BUILD / "libneurim_rt.so"
HEADER = (ROOT / "neurim" / "runtime" / "neurim_rt.h").read_text(encoding="utf-8")
OK, USAGE, DATA = 0, 2, 3
F32, U8 = 1, 11


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("most_plans", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("nhwc", ctypes.c_uint32)]


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("sizes", ctypes.c_int64 * 8)]


class Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("sizes", ctypes.c_int64 * 8), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_size_t)]

    @classmethod
    def of(cls, sizes, data=None, dtype=F32):
        return cls(dtype, len(sizes), (ctypes.c_int64 * 8)(*sizes), ctypes.addressof(data) if data is not None else None,
                   ctypes.sizeof(data) if data is not None else 0)


def declared():
    return re.findall(r"NEURIM_RT_API [\w\s*]*?(neurim_\w+)\(", HEADER)


class Exported(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.root / "model.neurim"
        made = neurim("export", cls.folder, "format=neurim", f"output={cls.model}")
        assert made.returncode == 0, made
        cls.images = sorted((cls.root / "data" / "val").rglob("*.png"))


class Library(Exported):
    def test_the_library_exports_what_the_header_declares(self):
        shown = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(line.split()[-1] for line in shown.splitlines()), sorted(declared()))
        self.assertGreaterEqual(len(declared()), 18)

    @not_sanitized
    def test_the_library_is_small_and_needs_no_onednn(self):
        needed = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        for other in ("dnnl", "gomp", "protobuf", "cairo", "lmdb"):
            self.assertNotIn(other, needed)
        with tempfile.TemporaryDirectory() as folder:
            stripped = Path(folder, "rt.so")
            subprocess.run(["strip", "-o", stripped, LIBRARY], check=True)
            self.assertLess(stripped.stat().st_size, 8 * 2**20)

    @not_sanitized
    def test_a_static_library_is_enough_for_a_program(self):
        subprocess.run(["cmake", "--build", BUILD, "--target", "neurim_rt_static"], capture_output=True, check=True)
        program = self.root / "static"
        images = "jpeg turbojpeg webp webpdemux tiff spng z".split()
        subprocess.run(["cc", ROOT / "examples" / "classify_image.c", "-I", ROOT, BUILD / "libneurim_rt.a", "-lstdc++", "-lm",
                        *(f"-l{name}" for name in images), "-o", program], check=True)
        run = subprocess.run([program, self.model, self.images[0]], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        names = subprocess.run(["nm", "--defined-only", "--extern-only", BUILD / "libneurim_rt.a"], capture_output=True, text=True, check=True).stdout
        self.assertEqual({name for name in re.findall(r" [TDBR] (\w+)", names)}, set(declared()))

    def test_a_thousand_sessions_leave_nothing(self):
        times = 1000
        run = subprocess.run([BUILD / "tests" / "runtime_loads", self.model, str(times)], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(run.returncode, 0, run)
        if "ASAN_OPTIONS" not in os.environ:  # whose memory is quarantined; it reports leaks at the end
            early, late = map(int, run.stdout.split())
            self.assertLess(late - early, 8 * 1024, run.stdout)


@not_sanitized  # Python loads the library
class Calls(Exported):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rt = ctypes.CDLL(str(LIBRARY))
        for name in ("neurim_last_error", "neurim_class_name", "neurim_metadata"):
            getattr(cls.rt, name).restype = ctypes.c_char_p
        for name in ("neurim_class_count", "neurim_input_count", "neurim_output_count"):
            getattr(cls.rt, name).restype = ctypes.c_size_t
        cls.rt.neurim_class_threshold.restype = ctypes.c_double
        cls.session = cls.opened(cls.model)

    @classmethod
    def opened(cls, path):
        session = ctypes.c_void_p()
        status = cls.rt.neurim_open(str(path).encode(), None, ctypes.byref(session))
        assert status == OK, cls.rt.neurim_last_error()
        return session

    def said(self):
        return self.rt.neurim_last_error().decode()

    def classes(self, session):
        return [self.rt.neurim_class_name(session, i).decode() for i in range(self.rt.neurim_class_count(session))]

    def probabilities(self, session, path):
        shares = (ctypes.c_float * self.rt.neurim_class_count(session))()
        self.assertEqual(self.rt.neurim_classify_file(session, str(path).encode(), shares), OK, self.said())
        return list(shares)

    def test_answers_are_those_of_the_command(self):
        quantized = self.root / "bytes.neurim"
        self.assertEqual(neurim("quantize", self.folder, "max_drop=100", f"output={quantized}").returncode, 0)
        for model in (self.model, quantized):
            session = self.opened(model)
            names = self.classes(session)
            run = neurim("predict", model, *self.images[:6], "--json")
            self.assertEqual(run.returncode, 0, run)
            answers = [json.loads(line) for line in run.stdout.splitlines()]
            answers = [answer for answer in answers if answer.get("event") == "prediction"]
            self.assertEqual(len(answers), 6, run.stdout)
            for path, answer in zip(self.images, answers):
                shares = self.probabilities(session, path)
                best = max(range(len(shares)), key=lambda i: shares[i])
                top = answer["predictions"][0]
                self.assertEqual(names[best], top["label"], answer)
                self.assertAlmostEqual(shares[best], top["prob"], delta=1e-5)
            self.rt.neurim_close(session)

    def test_bytes_and_pixels_are_images_too(self):
        path = self.root / "odd.png"
        rows = [[(7 * x + 3 * y) % 256 for x in range(31)] for y in range(45)]
        gray_png(path, rows)
        expected = self.probabilities(self.session, path)
        content = path.read_bytes()
        shares = (ctypes.c_float * 3)()
        self.assertEqual(self.rt.neurim_classify_bytes(self.session, content, ctypes.c_size_t(len(content)), shares), OK, self.said())
        self.assertEqual(list(shares), expected)
        pixels = (ctypes.c_uint8 * (31 * 45))(*(value for row in rows for value in row))
        self.assertEqual(self.rt.neurim_classify_pixels(self.session, pixels, 45, 31, 1, shares), OK, self.said())
        self.assertEqual(list(shares), expected)

    def test_ports_and_metadata_say_what_the_model_takes(self):
        self.assertEqual((self.rt.neurim_input_count(self.session), self.rt.neurim_output_count(self.session)), (1, 1))
        port = Port()
        self.assertEqual(self.rt.neurim_input(self.session, ctypes.c_size_t(0), ctypes.byref(port)), OK)
        self.assertEqual((port.dtype, port.rank, port.sizes[0]), (F32, 4, -1))
        self.assertEqual(self.rt.neurim_output(self.session, ctypes.c_size_t(0), ctypes.byref(port)), OK)
        self.assertEqual((port.dtype, list(port.sizes[:2])), (F32, [-1, 3]))
        self.assertEqual(self.rt.neurim_input(self.session, ctypes.c_size_t(1), ctypes.byref(port)), USAGE)
        self.assertEqual(json.loads(self.rt.neurim_metadata(self.session, b"class_names")), self.classes(self.session))
        self.assertIsNone(self.rt.neurim_metadata(self.session, b"no such"))
        self.assertIsNone(self.rt.neurim_class_name(self.session, ctypes.c_size_t(3)))
        self.assertEqual(self.rt.neurim_class_threshold(self.session, ctypes.c_size_t(0)), 0)

    def test_tensors_run_in_batches(self):
        port = Port()
        self.rt.neurim_input(self.session, ctypes.c_size_t(0), ctypes.byref(port))
        image = port.sizes[1] * port.sizes[2] * port.sizes[3]
        values = [(i * 37 % 101) / 50 - 1 for i in range(3 * image)]
        sizes = list(port.sizes[1:4])
        one_call = ctypes.c_size_t(1)

        def run(count, first):
            data = (ctypes.c_float * (count * image))(*values[first * image:(first + count) * image])
            given, out = Array.of([count, *sizes], data), Array.of([])
            self.assertEqual(self.rt.neurim_run(self.session, ctypes.byref(given), one_call, ctypes.byref(out), one_call), OK, self.said())
            self.assertEqual((out.dtype, out.rank, list(out.sizes[:2])), (F32, 2, [count, 3]))  # the sizes alone
            logits = (ctypes.c_float * (3 * count))()
            out.data, out.bytes = ctypes.addressof(logits), ctypes.sizeof(logits) - 1
            self.assertEqual(self.rt.neurim_run(self.session, ctypes.byref(given), one_call, ctypes.byref(out), one_call), USAGE)
            self.assertEqual(list(logits), [0] * 3 * count)
            out.bytes += 1
            self.assertEqual(self.rt.neurim_run(self.session, ctypes.byref(given), one_call, ctypes.byref(out), one_call), OK, self.said())
            return list(logits)
        three = run(3, 0)
        for i in range(3):
            for a, b in zip(run(1, i), three[3 * i:]):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_bytes_are_opened_and_images_may_have_their_channels_last(self):
        path = self.root / "last.neurim"
        self.assertEqual(neurim("export", "resnet20", "format=neurim", f"output={path}").returncode, 0)
        turned = self.root / "turned.neurim"
        self.assertEqual(neurim("export", "resnet20", "format=neurim", "input_layout=nhwc", f"output={turned}").returncode, 0)
        one = ctypes.c_size_t(1)
        values = [(i * 37 % 101) / 50 - 1 for i in range(3 * 32 * 32)]
        by_pixel = [values[c * 32 * 32 + i] for i in range(32 * 32) for c in range(3)]
        answers = []
        for file, nhwc in ((path, 0), (path, 1), (turned, 0), (turned, 1)):
            session, port = ctypes.c_void_p(), Port()
            content = ctypes.create_string_buffer(file.read_bytes())
            options = Options(ctypes.sizeof(Options), 0, 0, nhwc)
            size = ctypes.c_size_t(len(content) - 1)
            self.assertEqual(self.rt.neurim_open_bytes(content, size, ctypes.byref(options), ctypes.byref(session)), OK, self.said())
            ctypes.memset(content, 0, len(content))  # which the session does not need any more
            last = nhwc == 1 or file == turned
            self.rt.neurim_input(session, ctypes.c_size_t(0), ctypes.byref(port))
            self.assertEqual(list(port.sizes[1:4]), [32, 32, 3] if last else [3, 32, 32])
            data, logits = (ctypes.c_float * len(values))(*(by_pixel if last else values)), (ctypes.c_float * 10)()
            given, out = Array.of([1, *port.sizes[1:4]], data), Array.of([], logits)
            self.assertEqual(self.rt.neurim_run(session, ctypes.byref(given), one, ctypes.byref(out), one), OK, self.said())
            shares = (ctypes.c_float * 10)()
            pixels = (ctypes.c_uint8 * len(values))(*(i % 251 for i in range(len(values))))
            self.assertEqual(self.rt.neurim_classify_pixels(session, pixels, 32, 32, 3, shares), OK, self.said())
            answers.append(list(logits) + list(shares))
            self.rt.neurim_close(session)
        for answer in answers[1:]:
            for a, b in zip(answers[0], answer):
                self.assertAlmostEqual(a, b, delta=1e-4)
        # The options of a program that was built before there was nhwc, with whatever in their padding.
        old = Options(16, 2, 0xA5A5A5A5, 1)
        session, port = ctypes.c_void_p(), Port()
        self.assertEqual(self.rt.neurim_open(str(path).encode(), ctypes.byref(old), ctypes.byref(session)), OK, self.said())
        self.rt.neurim_input(session, ctypes.c_size_t(0), ctypes.byref(port))
        self.assertEqual(list(port.sizes[1:4]), [3, 32, 32])
        self.rt.neurim_close(session)
        session = ctypes.c_void_p()
        self.assertEqual(self.rt.neurim_open_bytes(b"{}", ctypes.c_size_t(2), None, ctypes.byref(session)), DATA)
        self.assertIn("only 2 bytes", self.said())
        self.assertEqual(self.rt.neurim_open_bytes(None, ctypes.c_size_t(2), None, ctypes.byref(session)), USAGE)

    def test_it_is_nearly_as_fast_as_the_command(self):
        """Without oneDNN all convolutions have kernels still: plain loops would take thirty times as long."""
        model = self.root / "resnet18.neurim"
        self.assertEqual(neurim("export", "resnet18", "imgsz=64", "format=neurim", f"output={model}").returncode, 0)
        session, one = self.opened(model), ctypes.c_size_t(1)
        data, logits = (ctypes.c_float * (3 * 64 * 64))(), (ctypes.c_float * 1000)()
        given, out = Array.of([1, 3, 64, 64], data), Array.of([], logits)
        seconds = []
        for _ in range(30):
            begin = time.perf_counter()
            self.assertEqual(self.rt.neurim_run(session, ctypes.byref(given), one, ctypes.byref(out), one), OK, self.said())
            seconds.append(time.perf_counter() - begin)
        self.rt.neurim_close(session)
        run = neurim("benchmark", model, "seconds=0.2", "rounds=1", "--json")
        self.assertEqual(run.returncode, 0, run)
        self.assertLess(min(seconds[3:]) * 1e3, 5 * json.loads(run.stdout.splitlines()[-1])["latency_ms"]["p50"])

    def test_wrong_calls_say_why(self):
        session, one = ctypes.c_void_p(), ctypes.c_size_t(1)
        shares = (ctypes.c_float * 3)()
        broken = self.root / "broken.neurim"
        content = bytearray(self.model.read_bytes())
        content[-5] ^= 1
        broken.write_bytes(content)
        cases = [
            (lambda: self.rt.neurim_open(b"/no/such.neurim", None, ctypes.byref(session)), DATA, "/no/such.neurim"),
            (lambda: self.rt.neurim_open(str(broken).encode(), None, ctypes.byref(session)), DATA, "broken.neurim"),
            (lambda: self.rt.neurim_open(str(self.images[0]).encode(), None, ctypes.byref(session)), DATA, self.images[0].name),
            (lambda: self.rt.neurim_open(str(self.folder / "weights" / "best.safetensors").encode(), None, ctypes.byref(session)), DATA,
             "no function file"),
            (lambda: self.rt.neurim_open(None, None, ctypes.byref(session)), USAGE, "path is NULL"),
            (lambda: self.rt.neurim_open(b"x", ctypes.byref(Options(99, 0)), ctypes.byref(session)), USAGE, "size is 99"),
            (lambda: self.rt.neurim_classify_file(self.session, b"/no/such.png", shares), DATA, "/no/such.png"),
            (lambda: self.rt.neurim_classify_file(self.session, str(self.model).encode(), shares), DATA, "model.neurim"),
            (lambda: self.rt.neurim_classify_file(self.session, str(self.images[0]).encode(), None), USAGE, "probabilities is NULL"),
            (lambda: self.rt.neurim_classify_pixels(self.session, shares, -1, 5, 1, shares), USAGE, "-1"),
            (lambda: self.rt.neurim_classify_bytes(None, b"x", one, shares), USAGE, "session is NULL"),
            (lambda: self.rt.neurim_run(self.session, None, ctypes.c_size_t(0), None, ctypes.c_size_t(0)), USAGE, "1 inputs"),
            (lambda: self.rt.neurim_run(self.session, ctypes.byref(Array.of([1, 1, 2, 2], (ctypes.c_float * 4)())), one,
                                        ctypes.byref(Array.of([])), one), USAGE, ""),
            (lambda: self.rt.neurim_run(self.session, ctypes.byref(Array.of([2], (ctypes.c_float * 3)())), one,
                                        ctypes.byref(Array.of([])), one), USAGE, "12 bytes"),
            (lambda: self.rt.neurim_run(self.session, ctypes.byref(Array.of([-2])), one, ctypes.byref(Array.of([])), one), USAGE, "-2"),
            (lambda: self.rt.neurim_run(self.session, ctypes.byref(Array.of([2], None, 77)), one, ctypes.byref(Array.of([])), one), USAGE, "77"),
            (lambda: self.rt.neurim_set_threads(0), USAGE, "threads"),
        ]
        for number, (call, status, words) in enumerate(cases):
            self.assertEqual(call(), status, (number, self.said()))
            self.assertIn(words, self.said())
            self.assertEqual(len(self.said().splitlines()), 1, self.said())
            self.assertIsNone(session.value)
        self.assertEqual(self.rt.neurim_open(str(self.model).encode(), ctypes.byref(Options(ctypes.sizeof(Options), 2)), ctypes.byref(session)), OK)
        self.assertEqual(self.said(), "")
        self.rt.neurim_close(session)
        self.rt.neurim_close(None)

    def test_threads_share_a_session(self):
        expected = [self.probabilities(self.session, path) for path in self.images[:4]]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda i: self.probabilities(self.session, self.images[i % 4]), range(64)))
        for i, shares in enumerate(found):
            for a, b in zip(shares, expected[i % 4]):
                self.assertAlmostEqual(a, b, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
