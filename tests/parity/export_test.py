"""Trains networks with the command, exports them, and has ONNX Runtime agree on every image tried: with `neurim run`, and of exports
that have the preprocessing in them with `neurim predict`.

ctest sets NEURIM_BUILD. With NEURIM_DATA the images are all of Fashion-MNIST's test set, else noisy stripes.
Exit code 77: not here.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import image_sets

NEURIM = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "neurim")
FASHION = Path(os.environ.get("NEURIM_DATA", "none"), "fashion-mnist")
BATCH = 500


def command(*words):
    run = subprocess.run([NEURIM, *map(str, words)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def idx_set(folder):
    """IDX files of noisy stripes, whose direction is the class."""
    chance = np.random.default_rng(1)
    folder.mkdir()
    for name, count in (("train", 600), ("t10k", 300)):
        labels = np.arange(count) % 2
        stripes = np.where(np.arange(28) % 4 < 2, 160, 40)
        images = np.where(labels[:, None, None] == 0, stripes[None, :, None], stripes[None, None, :]) + chance.integers(-40, 41, (count, 28, 28))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + np.array([count, 28, 28], ">u4").tobytes() + images.astype(np.uint8).tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + np.array([count], ">u4").tobytes() + labels.astype(np.uint8).tobytes())


class Export(unittest.TestCase):
    def agree(self, model, size, learns_stripes):
        with tempfile.TemporaryDirectory() as home:
            root = Path(home)
            idx_set(root / "stripes")
            seen = FASHION if FASHION.is_dir() else root / "stripes"
            learnt = root / "stripes" if learns_stripes else seen
            command("train", f"data={learnt}", f"model={model}", "epochs=1", f"imgsz={size}", f"project={root}", "name=run", "augment=false",
                    "--quiet")
            exported = json.loads(command("export", root / "run", "preprocess=external", "--json").splitlines()[-1])["path"]
            onnx.checker.check_model(exported, full_check=True)
            session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
            said = json.loads(session.get_modelmeta().custom_metadata_map["preprocess"])
            raw, _ = image_sets.idx_split(seen, "t10k")
            channels = session.get_inputs()[0].shape[1]
            mean, std = (np.array(said[key], np.float32).reshape(1, -1, 1, 1) for key in ("mean", "std"))
            pad = (size - 28) // 2
            images = np.pad(raw, ((0, 0), (pad, pad), (pad, pad)))[:, None].repeat(channels, 1).astype(np.float32) / 255
            images = ((images - mean) / std).astype(np.float32)
            largest, same = 0.0, 0
            for begin in range(0, len(images), BATCH):
                batch = images[begin:begin + BATCH]
                (root / "in").mkdir(exist_ok=True)
                np.save(root / "in" / "input_0.npy", batch)
                command("run", f"model={root}/run", f"inputs={root}/in", f"outputs={root}/out")
                ours = np.load(root / "out" / "output_0.npy")
                (theirs,) = session.run(None, {session.get_inputs()[0].name: batch})
                largest = max(largest, float(np.abs(ours - theirs).max()))
                same += int((ours.argmax(1) == theirs.argmax(1)).sum())
            print(json.dumps({"model": model, "pictures": len(images), "largest_difference": largest, "same_top1": same}))
            self.assertLessEqual(largest, 1e-4)
            self.assertEqual(same, len(images))

    def test_lenet5(self):
        self.agree("lenet5", 28, learns_stripes=False)

    def test_a_network_with_batch_norm(self):
        self.agree("resnet20", 32, learns_stripes=True)  # in seconds

    def test_preprocessing_in_the_file(self):
        """Images of many sizes, and every way to resize them."""
        chance = np.random.default_rng(2)
        with tempfile.TemporaryDirectory() as home:
            root = Path(home)
            for label in range(3):
                (root / "photos" / str(label)).mkdir(parents=True)
                for number in range(24):
                    height, width = chance.integers(9, 300, 2)
                    coarse = chance.integers(0, 166, (5, 5, 3)).astype(np.uint8)
                    image = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).copy()
                    image[..., label] += 90
                    Image.fromarray(image).save(root / "photos" / str(label) / f"{number}.png")
            for way in (["crop_pct=0.875"], ["resize=letterbox"], ["resize=squash", "interpolation=bicubic"], ["interpolation=bicubic"]):
                run = root / "run"
                command("train", f"data={root}/photos", "model=resnet20", "in_chans=3", "epochs=1", "imgsz=32x48", f"project={root}", "name=run",
                        "exist_ok=true", "--quiet", *way)
                exported = json.loads(command("export", run, "--json").splitlines()[-1])["path"]
                onnx.checker.check_model(exported, full_check=True)
                session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
                said = [json.loads(line) for line in command("predict", run, root / "photos", "topk=3", "--json").splitlines()]
                said = [event for event in said if event["event"] == "prediction"]
                self.assertEqual(len(said), 72)
                largest = 0.0
                for event in said:
                    ours = {row["index"]: row["prob"] for row in event["predictions"]}
                    (theirs,) = session.run(None, {"image": np.asarray(Image.open(event["path"]))[None]})
                    self.assertEqual(int(theirs[0].argmax()), event["predictions"][0]["index"], event["path"])
                    largest = max(largest, *(abs(float(theirs[0][i]) - share) for i, share in ours.items()))
                print(json.dumps({"way": way, "pictures": len(said), "largest_difference": largest}))
                self.assertLessEqual(largest, 1e-3)


if __name__ == "__main__":
    unittest.main()
