"""What `neurim export` makes of ONNX files: a repository for Triton, and what Python modules of the user write.

With NEURIM_PEERS, the path of a Python that has openvino, tensorrt-rtx and tritonclient, these write, and Triton's client reads.
"""
import array
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from command import NEURIM, TrainedRun, neurim, npy

# By the schema that Triton's own client has.
PARSES = """
import sys
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2
config = text_format.Parse(open(sys.argv[1]).read(), model_config_pb2.ModelConfig())
print(config.name, config.backend, config.max_batch_size)
"""


class Deploy(TrainedRun):
    def test_triton_gets_a_repository(self):
        run = neurim("export", self.folder, "format=triton", f"output={self.root}/repository", "--json")
        self.assertEqual(run.returncode, 0, run)
        model = Path(json.loads(run.stdout.splitlines()[-1])["made"])
        self.assertEqual(model, self.root / "repository" / "lenet5")
        self.assertEqual((model / "labels.txt").read_text().split(), ["bright", "dark", "middle"])
        config = (model / "config.pbtxt").read_text()
        for words in ('name: "lenet5"', 'backend: "onnxruntime"', "max_batch_size: 32", "TYPE_UINT8", "dims: [ -1, -1, 1 ]", "dims: [ 3 ]",
                      'label_filename: "labels.txt"', "dynamic_batching"):
            self.assertIn(words, config)
        if "NEURIM_PEERS" in os.environ:
            parsed = subprocess.run([os.environ["NEURIM_PEERS"], "-c", PARSES, model / "config.pbtxt"], capture_output=True, text=True, check=False)
            self.assertEqual((parsed.returncode, parsed.stdout.split()), (0, ["lenet5", "onnxruntime", "32"]), parsed)
        predicted = neurim("predict", f"model={model}/1/model.onnx", f"source={self.root}/data/val/dark", "--json")
        self.assertEqual(predicted.returncode, 0, predicted)
        one = neurim("export", self.folder, "format=triton", "dynamic=false", f"output={self.root}/one", "--json")
        self.assertEqual(one.returncode, 0, one)
        config = (self.root / "one" / "lenet5" / "config.pbtxt").read_text()
        self.assertIn("max_batch_size: 0", config)
        self.assertNotIn("dynamic_batching", config)

    def test_images_with_their_channels_last(self):
        answers = []
        for name in ("onnx", "neurim"):
            model = self.root / f"last.{name}"
            more = [] if name == "neurim" else ["preprocess=external"]
            run = neurim("export", self.folder, f"format={name}", f"output={model}", "input_layout=nhwc", *more)
            self.assertEqual(run.returncode, 0, run)
            for again in (model, self.folder):
                val = neurim("val", again, f"data={self.root}/data", f"project={self.root}/val", "--json")
                self.assertEqual(val.returncode, 0, val)
                answers.append(json.loads(val.stdout.splitlines()[-1])["top1"])
            back = neurim("export", model, "format=onnx", f"output={self.root}/back.onnx", "preprocess=external")
            self.assertEqual(back.returncode, 0, back)
            with tempfile.TemporaryDirectory() as folder:
                inputs, first, last = (Path(folder, part) for part in ("in", "first", "last"))
                inputs.mkdir()
                values = array.array("f", (i * 37 % 101 / 50 - 1 for i in range(2 * 28 * 28)))
                npy(inputs / "input_0.npy", "(2, 28, 28, 1)", values)
                for words in ((model, f"outputs={first}"), (self.folder, f"outputs={last}", "input_layout=nhwc")):
                    run = neurim("run", f"model={words[0]}", f"inputs={inputs}", *words[1:])
                    self.assertEqual(run.returncode, 0, run)
                one, other = (array.array("f", (part / "output_0.npy").read_bytes()[128:]) for part in (first, last))
                self.assertEqual(len(one), 6)
                for a, b in zip(one, other):
                    self.assertAlmostEqual(a, b, delta=1e-5)
                npy(inputs / "input_0.npy", "(2, 1, 28, 28)", values)
                wrong = neurim("run", f"model={self.folder}", f"inputs={inputs}", f"outputs={first}", "input_layout=nhwc")
                self.assertEqual((wrong.returncode, "x.transpose(0, 2, 3, 1)" in wrong.stderr), (2, True), wrong)
        self.assertEqual(len(set(answers)), 1)
        for words, said in ((["preprocess=embedded", "input_layout=nhwc"], "u8 (N,H,W,C) already"), (["input_layout=chwn"], "known are model, nhwc")):
            run = neurim("export", self.folder, f"output={self.root}/never.onnx", *words)
            self.assertEqual((run.returncode, said in run.stderr), (2, True), run)

    def test_weights_for_pytorch(self):
        weights = self.root / "weights.pt"
        run = neurim("export", self.folder, "format=pt", f"output={weights}", "--json")
        self.assertEqual((run.returncode, json.loads(run.stdout.splitlines()[-1])["path"]), (0, str(weights)), run)
        same = [json.loads(neurim("val", model, f"data={self.root}/data", f"project={self.root}/val", *more, "--json").stdout.splitlines()[-1])
                for model, more in ((self.folder, []), (weights, ["arch=lenet5", "classes=bright,dark,middle"]))]
        self.assertEqual(same[0]["top1"], same[1]["top1"])
        quantized = self.root / "quantized.neurim"
        self.assertEqual(neurim("quantize", self.folder, "max_drop=100", "keep=f3", f"output={quantized}").returncode, 0)
        for form in ("pt", "timm"):
            run = neurim("export", quantized, f"format={form}", f"output={self.root}/never")
            self.assertEqual((run.returncode, "is a function" in run.stderr, (self.root / "never").exists()), (2, True, False), run)
        run = neurim("export", self.folder, "format=timm", f"output={self.root}/timm", "--dry-run")
        self.assertEqual(run.returncode, 2, run)
        run = neurim("export", self.folder, "format=timm", f"output={self.root}/timm")
        self.assertEqual((run.returncode, "timm has no network" in run.stderr, (self.root / "timm").exists()), (2, True, False), run)
        for _ in range(2):  # a folder that is there is written anew
            run = neurim("export", "mobilenet_v2", "imgsz=64", "format=timm", f"output={self.root}/timm")
            self.assertEqual((run.returncode, "weights are drawn" in run.stdout), (0, True), run)
        config = json.loads((self.root / "timm" / "config.json").read_text())
        self.assertEqual((config["architecture"], config["num_classes"]), ("mobilenetv2_100", 1000))
        run = neurim("info", self.root / "timm")
        self.assertEqual(run.returncode, 0, run)
        vit = neurim("export", "vit_tiny", "imgsz=32", "format=timm", f"output={self.root}/vit")
        self.assertEqual(vit.returncode, 0, vit)
        self.assertEqual(json.loads((self.root / "vit" / "config.json").read_text())["model_args"], {"img_size": [32, 32]})
        self.assertEqual(neurim("info", self.root / "vit").returncode, 0)
        self.assertEqual(neurim("export", "vit_tiny", "imgsz=32", "format=timm", f"output={self.root}/vit").returncode, 0)
        vit = neurim("info", self.root / "vit" / "model.safetensors", "arch=vit_tiny")
        self.assertEqual((vit.returncode, "f32(1,3,32,32)" in vit.stdout), (0, True), vit)
        run = neurim("export", "timm/swin_tiny_patch4_window7_224", "imgsz=64", "format=timm", f"output={self.root}/swin")
        self.assertEqual((run.returncode, "timm has no network" in run.stderr), (2, True), run)
        if "NEURIM_PEERS" in os.environ:
            for folder in ("timm", "vit"):
                loads = f"import timm; print(timm.create_model('local-dir:{self.root}/{folder}', pretrained=True).num_classes)"
                loaded = subprocess.run([os.environ["NEURIM_PEERS"], "-c", loads], capture_output=True, text=True, check=False)
                self.assertEqual((loaded.returncode, loaded.stdout.strip()), (0, "1000"), loaded)

    def test_a_python_without_the_module_is_said(self):
        for form, package in (("openvino", "openvino"), ("engine", "tensorrt-rtx")):
            run = subprocess.run([NEURIM, "export", self.folder, f"format={form}", f"output={self.root}/none/{form}", f"python={sys.executable}"],
                                 capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": "", "PYTHONNOUSERSITE": "1"})
            if run.returncode == 0:
                self.skipTest("this Python has the module")
            self.assertEqual((run.returncode, f"pip install {package}" in run.stderr), (2, True), run)
            self.assertFalse((self.root / "none" / form).exists())
        run = neurim("export", self.folder, "format=engine", "python=/no/such/python", f"output={self.root}/none/x")
        self.assertEqual((run.returncode, "/no/such/python" in run.stderr), (4, True), run)

    def test_options_are_those_of_their_formats(self):
        for words, said in ((["format=tflite"], "known are onnx"), (["gpus=80"], "format=engine"), (["format=engine", "preprocess=embedded"], "external"),
                            (["format=engine", "batches=8,1,2"], "do not fall"), (["format=neurim", "opset=17"], "format=onnx")):
            run = neurim("export", self.folder, f"output={self.root}/never", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn(said, run.stderr)

    @unittest.skipUnless("NEURIM_PEERS" in os.environ, "NEURIM_PEERS names no Python")
    def test_the_real_modules_write(self):
        python = f"python={os.environ['NEURIM_PEERS']}"
        run = neurim("export", self.folder, "format=openvino", python, "--json")
        self.assertEqual(run.returncode, 0, run)
        self.assertTrue((self.folder / "export" / "openvino" / "best.xml").is_file())
        self.assertTrue((self.folder / "export" / "openvino" / "best.bin").is_file())
        self.assertLess(json.loads(run.stdout.splitlines()[-1])["largest_difference_openvino"], 1e-4)
        signed = self.root / "signed.neurim"
        self.assertEqual(neurim("quantize", self.folder, "activations=i8", "max_drop=100", f"output={signed}").returncode, 0)
        words = ["export", signed, "format=engine", python, "gpus=80,86", f"output={self.root}/signed.engine"]
        run = neurim(*words)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("trtexec --onnx=", run.stdout)
        said = json.loads((self.root / "signed.engine.json").read_text())
        self.assertEqual((said["gpus"], said["batches"]), ("80,86", [1, 8, 32]))
        before = (self.root / "signed.engine").stat().st_mtime_ns
        self.assertIn("is of this model already", neurim(*words).stdout)
        self.assertEqual((self.root / "signed.engine").stat().st_mtime_ns, before)
        self.assertIn("built anew, as it is for the GPUs 80,86", neurim(*(word if not str(word).startswith("gpus") else "gpus=80" for word in words)).stdout)
        run = neurim(*(word if not str(word).startswith("gpus") else "gpus=75" for word in words[:-1]), f"output={self.root}/other.engine")
        self.assertIn(run.returncode, (0, 1), run)


if __name__ == "__main__":
    unittest.main()
