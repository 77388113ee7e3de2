"""The command on function files: what export format=neurim writes, every verb takes, and it computes the same."""
import json
import tempfile
import unittest
from pathlib import Path

from command import gray_png, neurim


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        for i in range(24):
            name = ("dark", "light", "mixed")[i % 3]
            row = {"dark": [20 + i] * 28, "light": [200 + i] * 28, "mixed": [20 + i, 220 - i] * 14}[name]
            (cls.root / "photos" / name).mkdir(parents=True, exist_ok=True)
            gray_png(cls.root / "photos" / name / f"{i}.png", [row] * 28)
        cls.train = neurim("train", "model=lenet5", f"data={cls.root}/photos", "epochs=2", "batch=8", f"project={cls.root}/runs", "name=run")
        cls.trained = cls.root / "runs" / "run"
        cls.export = neurim("export", cls.trained, "format=neurim", "--json")
        cls.file = cls.trained / "export" / "best.neurim"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def events(self, *words):
        result = neurim(*words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_is_written_beside_the_run(self):
        self.assertEqual(self.train.returncode, 0, self.train.stderr)
        self.assertEqual(self.export.returncode, 0, self.export.stderr)
        self.assertEqual(json.loads(self.export.stdout.splitlines()[-1])["path"], str(self.file))
        self.assertEqual(json.loads(self.export.stdout.splitlines()[-1])["bytes"], self.file.stat().st_size)

    def test_every_verb_gives_what_it_gives_of_the_run(self):
        for words in (["predict", f"source={self.root}/photos", "topk=3"], ["val", f"data={self.root}/photos"]):
            of_run, of_file = (self.events(words[0], f"model={model}", *words[1:]) for model in (self.trained, self.file))
            for event in of_run + of_file:
                for name in ("run", "model"):
                    event.pop(name, None)
            self.assertEqual(of_run, of_file, words)
        layers = [[event for event in self.events("info", model) if event["event"] == "layer"] for model in (self.trained, self.file)]
        self.assertTrue(layers[0])
        self.assertEqual(layers[0], layers[1])
        self.events("benchmark", self.file, "seconds=0.05", "rounds=1", "batch=3")

    def test_the_graph_is_shown(self):
        graphs = [next(event["text"] for event in self.events("info", model, "--graph") if event["event"] == "graph") for model in (self.trained, self.file)]
        self.assertEqual(graphs[0], graphs[1])
        self.assertIn("input input f32(batch,1,28,28)\nparameter c1.weight f32(6,1,5,5)\n", graphs[0])
        self.assertTrue(graphs[0].rstrip().splitlines()[-1].startswith("output logits = %"), graphs[0])

    def test_its_export_to_onnx_is_that_of_the_run(self):
        files = []
        for model in (self.trained, self.file):
            files.append(self.root / f"{len(files)}.onnx")
            self.events("export", model, f"output={files[-1]}")
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_one_image_where_that_was_asked_for(self):
        file = self.root / "one.neurim"
        self.events("export", self.trained, "format=neurim", "dynamic=false", f"output={file}")
        self.events("predict", f"model={file}", f"source={self.root}/photos/dark/0.png")
        refused = neurim("benchmark", file, "batch=2", "seconds=0.05", "rounds=1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("function: input input is f32(2,1,28,28), and the function takes f32(1,1,28,28)", refused.stderr)

    def test_a_model_without_labels(self):
        file = self.root / "plain.neurim"
        self.events("export", "lenet5", "format=neurim", f"output={file}")
        prediction = self.events("predict", f"model={file}", f"source={self.root}/photos/dark/0.png")[0]
        self.assertIn(prediction["predictions"][0]["label"], [str(i) for i in range(10)])

    def test_faults(self):
        for words, code, said in ((["export", self.trained, "format=tf"], 2, "known are onnx, neurim"),
                                  (["export", self.trained, "format=neurim", "opset=18"], 2, "opset: is for format=onnx"),
                                  (["export", self.file, "format=neurim"], 2, "best.neurim"),
                                  (["info", self.root / "none.neurim"], 3, "there is no such file")):
            result = neurim(*words)
            self.assertEqual((result.returncode, said in result.stderr), (code, True), result.stderr)
        whole = self.file.read_bytes()
        self.assertIn(b"relu(", whole)
        for damaged, said in ((whole[:-100], "best"), (whole[:5000] + b"!" + whole[5001:], ""), (whole.replace(b"relu(", b"rely(", 1), "")):
            broken = self.root / "broken.neurim"
            broken.write_bytes(damaged)
            result = neurim("info", broken)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("broken.neurim", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
