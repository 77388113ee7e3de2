"""Reads an event file of ours with TensorBoard's own reader.

ctest sets NEURIM_BUILD (the build folder, whose tests/tensorboard_test writes the file). Exit code 77: not here.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WRITER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "tensorboard_test")


def written_scalars():
    """Curves by tag as lists of (step, value), from a run that stopped at step 20 and resumed at step 11."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [WRITER, "--gtest_filter=TensorBoard.WritesForTheRealReader"],
            env={**os.environ, "NEURIM_TENSORBOARD": folder},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        assert len(glob.glob(folder + "/events.out.tfevents.*")) == 2
        events = EventAccumulator(folder)
        events.Reload()
        tags = events.Tags()["scalars"]
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


class TensorBoardReads(unittest.TestCase):
    def test_scalars(self):
        curves = written_scalars()
        self.assertEqual(sorted(curves), ["loss/train", "läuft/gut"])
        loss = dict(curves["loss/train"])
        self.assertEqual(sorted(loss), list(range(1, 16)))
        for step, value in loss.items():
            self.assertAlmostEqual(value, 1 / step if step <= 10 else -step, places=6)
        # The resumed file takes back every point from step 11 on, of every curve.
        self.assertEqual(curves["läuft/gut"], [(step, 100.0 * step) for step in range(1, 11)])


class TensorBoardReadsARun(unittest.TestCase):
    """A run's images, histograms, hyperparameters and graph."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        neurim = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "neurim")
        subprocess.run([neurim, "demo", "epochs=2", "train_pictures=20", "val_pictures=4", f"project={cls.home.name}"], stdout=subprocess.DEVNULL, check=True)
        cls.run_folder = os.path.join(cls.home.name, "demo")
        cls.events = EventAccumulator(cls.run_folder, size_guidance={"images": 0, "histograms": 0, "tensors": 0})
        cls.events.Reload()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def test_images(self):
        tags = self.events.Tags()["images"]
        self.assertIn("data/train_batch0", tags)
        self.assertIn("evaluation/confusion_matrix", tags)
        image = self.events.Images("data/train_batch0")[0]
        with open(os.path.join(self.run_folder, "train_batch0.jpg"), "rb") as file:
            self.assertEqual(image.encoded_image_string, file.read())
        self.assertGreater(min(image.width, image.height), 100)

    def test_histograms(self):
        tags = self.events.Tags()["histograms"]
        self.assertTrue(tags and all(tag.startswith("parameters/") for tag in tags))
        for event in self.events.Histograms(tags[0]):
            found = event.histogram_value
            self.assertEqual(len(found.bucket), 30)
            self.assertEqual(sum(found.bucket), found.num)
            self.assertAlmostEqual(found.bucket_limit[-1], found.max, places=6)
            self.assertLessEqual(found.min, found.sum / found.num)
            self.assertGreaterEqual(found.max, found.sum / found.num)
        self.assertEqual([event.step for event in self.events.Histograms(tags[0])], sorted({event.step for event in self.events.Histograms(tags[0])}))

    def test_hyperparameters(self):
        from tensorboard.plugins.hparams import metadata

        start = metadata.parse_session_start_info_plugin_data(self.events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content)
        self.assertEqual(start.hparams["epochs"].number_value, 2)
        self.assertEqual(start.hparams["model"].string_value, "lenet5")
        experiment = metadata.parse_experiment_plugin_data(self.events.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data.content)
        self.assertEqual({info.name for info in experiment.hparam_infos}, set(start.hparams))
        self.assertEqual([info.name.tag for info in experiment.metric_infos], ["top1/val"])

    def test_graph(self):
        graph = self.events.Graph()
        names = {node.name for node in graph.node}
        self.assertEqual(len(names), len(graph.node))
        self.assertIn("conv2d", {node.op for node in graph.node})
        self.assertTrue(all(source in names for node in graph.node for source in node.input))


if __name__ == "__main__":
    unittest.main()
