"""tools/check_layers finds what it is there to find."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "tools" / "check_layers"


def check(files):
    """Runs the tool on a tree of {path: content}; returns (exit code, printed lines)."""
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        run = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)
        return run.returncode, run.stdout.splitlines()


class CheckLayers(unittest.TestCase):
    def refuses(self, files, *words):
        code, lines = check(files)
        self.assertEqual(code, 1, lines)
        self.assertEqual(len(lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_sound_tree_passes(self):
        code, lines = check({
            "neurim/base/error.h": "#include <string>\n",
            "neurim/ops/relu.h": '#pragma once\n#include "neurim/base/error.h"\n',
            "neurim/ops/relu.cpp": '#include "neurim/ops/relu.h"\n#include <nlohmann/json.hpp>\n',
            "neurim/backend/cpu/conv2d.cpp": '#include <dnnl.hpp>\n#include "neurim/ops/relu.h"\n',
            "neurim/model/onnx/import.cpp": '#include "onnx/onnx-data.pb.h"\n',
            "neurim/train/trainer.h": '#include "neurim/data/loader.h"\n#include "neurim/nn/module.h"\n',
            "neurim/neurim.cpp": '#include "neurim/backend/cpu/device.h"\n',
        })
        self.assertEqual((code, lines), (0, ["the floors hold"]))

    def test_a_lower_folder_must_not_include_a_higher_one(self):
        self.refuses({"neurim/core/tensor.h": '\n#  include "neurim/ops/relu.h"\n'},
                     "neurim/core/tensor.h:2:", "neurim/ops/relu.h", "core/ (2) lies below ops/ (4)")

    def test_forbidden_pairs(self):
        for above, below in [("nn", "data"), ("evaluate", "data"), ("evaluate", "nn"), ("nn", "backend"), ("cli", "backend")]:
            with self.subTest(above=above, below=below):
                self.refuses({f"neurim/{above}/a.cpp": f'#include "neurim/{below}/b.h"\n'}, f"{above}/ must not know {below}/")

    def test_vendor_headers_stay_where_they_are_wrapped(self):
        for file, header in [("neurim/nn/a.cpp", "dnnl.hpp"), ("neurim/model/file.cpp", "google/protobuf/message.h"),
                             ("neurim/model/onnx/a.h", "onnx/onnx-data.pb.h"), ("neurim/base/json.h", "nlohmann/json.hpp"),
                             ("neurim/cli/a.h", "CLI/CLI.hpp"), ("neurim/evaluate/a.h", "cairo/cairo.h")]:
            with self.subTest(file=file, header=header):
                self.refuses({file: f"#include <{header}>\n"}, f"{file}:1: includes {header}")

    def test_include_cycles(self):
        self.refuses({"neurim/nn/a.h": '#include "neurim/nn/b.h"\n', "neurim/nn/b.h": '#include "neurim/nn/a.h"\n'},
                     "include cycle: neurim/nn/a.h -> neurim/nn/b.h -> neurim/nn/a.h")

    def test_our_headers_are_named_from_the_root(self):
        self.refuses({"neurim/nn/a.cpp": '#include "a.h"\n'}, "name our own headers from the root")

    def test_an_unknown_folder_needs_a_number(self):
        self.refuses({"neurim/misc/a.h": ""}, "misc/ is not a folder of the house")


if __name__ == "__main__":
    unittest.main()
