"""The install tree serves a program of a user's: find_package(neurim), the examples and the README's program built against it, run, and right."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ["NEURIM_BUILD"]
MOST_MIB = 90  # of the installed product with its libraries: 52 are oneDNN's, 8 the runtime's


# What a program gets that forgets to initialize.
FORGETFUL = """#include <functional>
#include <iostream>

#include "neurim/neurim.h"

using namespace neurim;

int main() {
  const std::vector<std::function<void()>> tries{
      [] { nn::Linear(2, 2)(Tensor::full({DType::f32, {1, 2}}, 1)); },
      [] {
        Model model = create_model("lenet5", {});
        SGD sgd(named_parameters(model), {.lr = 0.1});
        plan(training_step(model, sgd, {}), {{DType::f32, {1, 1, 28, 28}}, {DType::i64, {1}}}, {.training = true});
      }};
  for (const auto& each : tries) try {
      each();
    } catch (const Error& error) {
      std::cout << error.what() << "\\n";
    }
}
"""


def readme(kind):
    """The README's block of that language."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        (block,) = re.findall(rf"```{kind}\n(.*?)```", file.read(), re.DOTALL)
    return block


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


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
            self.readme_program(folder, prefix)
            self.c_program(folder, prefix)
            print(f"installed size {size / 2**20:.1f} MiB", file=sys.stderr)

    def c_program(self, folder, prefix):
        """A C compiler and the installed runtime are enough; the answer is the command's."""
        command, model, app = os.path.join(prefix, "bin", "neurim"), os.path.join(folder, "flowers.neurim"), os.path.join(folder, "classify_image")
        run(command, "train", "data=flowers", "model=lenet5", "epochs=1", "batch=4", "name=flowers", cwd=folder)
        run(command, "export", "runs/classify/flowers", "format=neurim", "output=" + model, cwd=folder)
        library = os.path.join(prefix, "lib")
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", os.path.join(ROOT, "examples", "classify_image.c"),
            "-I", os.path.join(prefix, "include"), "-L", library, "-lneurim_rt", "-Wl,-rpath," + library, "-o", app)
        image = os.path.join("flowers", "rose", "0.ppm")
        said = run(app, model, image, cwd=folder).split()
        (answer,) = (json.loads(line) for line in run(command, "predict", model, image, "--json", cwd=folder).splitlines() if "prediction\"" in line)
        self.assertEqual(said[1], answer["predictions"][0]["label"])
        self.assertAlmostEqual(float(said[2]), answer["predictions"][0]["prob"], delta=1e-5)

    def readme_program(self, folder, prefix):
        source, build = os.path.join(folder, "app"), os.path.join(folder, "app-build")
        cmake = readme("cmake").replace("target_link", "add_executable(app app.cpp)\ntarget_link")
        forgetful = "add_executable(forgetful forgetful.cpp)\ntarget_link_libraries(forgetful PRIVATE neurim::neurim)\n"
        for name, content in (("app.cpp", readme("cpp")), ("forgetful.cpp", FORGETFUL),
                              ("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX)\n" + cmake + forgetful)):
            write(os.path.join(source, name), content.encode())
        run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix)
        run("cmake", "--build", build)
        for name, color in (("daisy", b"\xf0\xf0\x20"), ("rose", b"\xd0\x10\x30")):
            for i in range(8):
                write(os.path.join(folder, "flowers", name, f"{i}.ppm"), b"P6 64 64 255\n" + color * (64 * 64 - i) + bytes(3 * i))
        self.assertRegex(run(os.path.join(build, "app"), cwd=folder), r"^[\d.]+ in .*runs")
        self.assertTrue(os.path.exists(os.path.join(folder, "own.onnx")))
        said = run(os.path.join(build, "forgetful")).splitlines()
        self.assertEqual([line.partition("; ")[2] for line in said], ["call neurim::initialize() first"] * 2, said)


if __name__ == "__main__":
    unittest.main()
