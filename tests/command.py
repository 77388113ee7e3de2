"""The command as the tests call it, and the small files that they feed it."""
import array
import csv
import fcntl
import hashlib
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import zlib
from pathlib import Path

if "NEURIM_BUILD" not in os.environ:
    print("NEURIM_BUILD is not set")
    sys.exit(77)
ROOT = Path(__file__).resolve().parent.parent
NEURIM = str(Path(os.environ["NEURIM_BUILD"], "neurim"))
VERBS = "train val predict explain embed runs board run resume export prune quantize launch data info models layers operators demo collectives simulate benchmark doctor version".split()
DATA_TASKS = "convert dedupe download label-issues pack preview scan split stats".split()


# For cases that compare what whole runs learn or measure: of those a sanitizer says nothing that it does not say of one run.
not_sanitized = unittest.skipIf("ASAN_OPTIONS" in os.environ, "compares whole runs")


def neurim(*words, **more):
    return subprocess.run([NEURIM, *map(str, words)], capture_output=True, text=True, timeout=120, check=False, **more)


def instead(words, *options):
    """The words with these options in place of those of the same names, as none may be given twice."""
    names = {option.split("=")[0] for option in options}
    return [word for word in words if str(word).split("=")[0] not in names] + list(options)


def on_a_full_disk(*words, room=0, **more):
    """A command whose files may have `room` KiB each."""
    line = ["bash", "-c", f'ulimit -f {room}; exec "$@"', "full", NEURIM, *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, **more)


def in_terminal(columns, *words):
    """The exit code, and what a terminal of so many columns is sent."""
    try:
        screen, terminal = pty.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"the system gives no terminal: {error}")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(screen, "rb", buffering=0) as shown:
        with subprocess.Popen([NEURIM, *map(str, words)], stdin=terminal, stdout=terminal, stderr=terminal) as process:
            os.close(terminal)
            sent = b""
            try:
                while part := shown.read(65536):
                    sent += part
            except OSError:  # Linux says so that nobody writes any more
                pass
    return process.returncode, sent.decode()


def write_png(path, width, height, bits, color, rows, more=()):
    """A PNG of rows of samples, `color` 0 for gray and 2 for RGB, with further chunks as (kind, data) before the samples."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.parent.mkdir(parents=True, exist_ok=True)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)), *more,
              (b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks))


def gray_png(path, rows, orientation=1):
    """A gray PNG with an EXIF orientation."""
    exif = (b"eXIf", b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, orientation, 0))
    write_png(path, len(rows[0]), len(rows), 8, 0, rows, [exif] if orientation != 1 else [])


def png(path, height, width, level, orientation=1):
    """A gray PNG of one level with a bright corner that depends on it."""
    gray_png(path, [[(level + 7 * x * y) % 256 for x in range(width)] for y in range(height)], orientation)


def npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))


def npy_picture(path, height, width, channels, level):
    """An image of any channels, the last of which is bright where the level is high."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({height}, {width}, {channels}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = bytes(level if c == channels - 1 else (x * y + c) % 256 for y in range(height) for x in range(width) for c in range(channels))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + pixels)


def best_row(path):
    """The row of results.csv that is best: the highest val_top1, and of several the lowest val_loss."""
    with open(path, newline="") as file:
        return max(csv.DictReader(file), key=lambda row: (float(row["val_top1"]), -float(row["val_loss"])))


def tensors(path):
    """A hash of a safetensors file without its metadata."""
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + data[8 + size:]).hexdigest()


def without_checksums(data):
    """The bytes of a safetensors file as programs write it that know of no checksums."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for key in ("xxh64_header", "xxh64_data"):
        header["__metadata__"].pop(key)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size:]


def levels(root):
    """A small data set of three classes that differ in brightness."""
    for name, level in (("dark", 10), ("middle", 90), ("bright", 170)):
        for split, count in (("train", 14), ("val", 5)):
            for i in range(count):
                png(root / split / name / f"{i}.png", 28, 28, level + i)


class Tensors:
    """The f32 tensors of a safetensors file, read and changed in place."""
    def __init__(self, path):
        self.path, self.data = path, bytearray(without_checksums(path.read_bytes()))
        self.begin = 8 + int.from_bytes(self.data[:8], "little")
        self.header = json.loads(self.data[8:self.begin])

    def place(self, name):
        return slice(*(self.begin + offset for offset in self.header[name]["data_offsets"]))

    def __getitem__(self, name):
        return array.array("f", bytes(self.data[self.place(name)]))

    def change(self, name, of):
        """`of` gives a factor for each row and column."""
        values, shape = self[name], self.header[name]["shape"]
        width = len(values) // shape[0]
        for i, value in enumerate(values):
            values[i] = value * of(i // width, i % width)
        self.data[self.place(name)] = values.tobytes()

    def write(self):
        self.path.write_bytes(self.data)


class TrainedRun(unittest.TestCase):
    """One small data set and one run of two epochs over it."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        levels(cls.root / "data")
        cls.words = ["train", f"data={cls.root}/data", "model=lenet5", "batch=16", "epochs=2", f"project={cls.root}/runs"]
        cls.result = neurim(*cls.words, "--json")
        cls.folder = cls.root / "runs" / "train"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()
