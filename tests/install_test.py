"""The install tree serves a program of a user's: find_package(neurim), the examples built against it, run, and right."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ["NEURIM_BUILD"]
MOST_MIB = 80  # of the installed product with its libraries


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    def test_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = os.path.join(folder, "neurim"), os.path.join(folder, "build")
            run("cmake", "--install", BUILD, "--prefix", prefix, "--strip")
            size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(prefix) for name in names
                       if not os.path.islink(os.path.join(at, name)))
            self.assertLess(size / 2**20, MOST_MIB)
            self.assertIn("neurim", run(os.path.join(prefix, "bin", "neurim"), "version"))
            run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "examples"), "-B", build,
                "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix)
            run("cmake", "--build", build)
            plugin, model = os.path.join(build, "libsquareplus.so"), os.path.join(ROOT, "examples", "squareplus.toml")
            for example in (("classify_folder",), ("own_loop",), ("forecast_series",), ("write_text",), ("own_op", plugin, model)):
                run(os.path.join(build, example[0]), *example[1:], cwd=folder)
            shown = run(os.path.join(prefix, "bin", "neurim"), "info", model, "plugins=" + plugin)
            self.assertIn("squareplus", shown)
            self.assertIn("blocks.1.1.weight", shown)
            print(f"installed size {size / 2**20:.1f} MiB", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
