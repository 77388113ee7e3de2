"""Models by name, and models that answer."""

from __future__ import annotations

import fnmatch
import os
from typing import Any

from . import _core
from ._core import Tensor, UsageError
from .data import Data, Loader, is_channels_first
from .module import Module, Parameter


class Model(Module):
    """A network that Neurim knows by name; see create_model. Calls give logits (N,classes) of images f32 (N,C,H,W)."""

    def __init__(self, core: Any) -> None:
        super().__init__()
        self._core = core
        for name, tensor, learnt in core.tensors():
            if learnt:
                self._parameters[name] = Parameter(tensor)
            else:
                self._buffers[name] = tensor

    @property
    def name(self) -> str:
        """As create_model knows it."""
        return str(self._core.name)

    @property
    def num_classes(self) -> int:
        """Logits of a sample."""
        return int(self._core.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of images."""
        logits: Tensor = self._core(x)
        return logits

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights as safetensors."""
        self._core.save(os.fspath(path))

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {self.num_classes} classes, {self.num_parameters():,} parameters)"


def create_model(
    name: str,
    *,
    num_classes: int = 0,
    in_chans: int = 0,
    pretrained: str | os.PathLike[str] | None = None,
    dropout: float | None = None,
    drop_path: float | None = None,
    imgsz: int = 0,
    seed: int = 42,
) -> Model:
    """The model of that name: list_models() has them, and so has `neurim models`. 0: as it was published.

    `pretrained`: a file or folder of weights, of which layers for other classes or channels are adapted; nothing is downloaded.
    Throws UsageError for an unknown name, with the nearest one.
    """
    core = _core.create_model(name, num_classes, in_chans, dropout, drop_path, imgsz, seed)
    if pretrained is not None:
        core.load(os.fspath(pretrained), True)
    return Model(core)


def list_models(pattern: str = "*") -> list[str]:
    """The known names that a pattern such as "resnet*" fits."""
    return fnmatch.filter(_core.model_names(), pattern)


class Prediction(list[tuple[str, float]]):
    """(class, probability) by falling probability; `unreadable` says why an image could not be read."""

    unreadable: str = ""

    @property
    def top1(self) -> str:
        """The likeliest class."""
        return self[0][0]

    @property
    def label(self) -> str:
        """The likeliest class."""
        return self[0][0]


class Numbers(dict[str, float]):
    """What a model of numbers says, by the names of its targets; `unreadable` says why an image could not be read."""

    unreadable: str = ""

    @property
    def value(self) -> float:
        """The number of a model that gives one."""
        (value,) = self.values()
        return value


class Predictor:
    """A trained model that answers: of images of any size and kind with all that is done to them."""

    def __init__(self, core: Any, path: str) -> None:
        self._core, self.path = core, path

    @staticmethod
    def open(path: str | os.PathLike[str], batch: int = 16) -> Predictor:
        """Of a run, weights, a folder of timm, a function or an ONNX file."""
        return Predictor(_core.Classifier.open(os.fspath(path), batch), os.fspath(path))

    @staticmethod
    def of(core: Any, weights: str | os.PathLike[str], batch: int = 16, *, present: bool = False) -> Predictor:
        """Of a model of Python with the weights that its training has left, or with its `present` ones."""
        return Predictor(_core.Classifier.of(core, os.fspath(weights), batch, present), os.fspath(weights))

    @property
    def class_names(self) -> list[str]:
        """In the order of the probabilities."""
        return list(self._core.class_names)

    def predict(self, source: Any, topk: int | None = None) -> Any:
        """What images show: a path, an array u8 (H,W[,C]), an image of Pillow, or a list of these; one answer or a list.

        Arrays (N,H,W,C), and (N,H,W) where W can be no number of channels, are N images. Those that look like (C,H,W) are a UsageError.
        Throws DataError where the image cannot be read; in a list its answer is empty and `unreadable` says why.
        `topk`: how many classes are named; by default all, of a multi-label model those above their thresholds.
        A model of numbers (regression) answers with Numbers.
        """
        if topk is not None and (not hasattr(topk, "__index__") or topk < 1):
            raise UsageError(f"predict: topk is a whole number from 1 on, or None for all classes, not {topk!r}")
        many, said = self._said(source, "predict")
        answers = [self._answer(one, topk) for one in said]
        if not many and answers[0].unreadable:
            raise _core.DataError(answers[0].unreadable)
        return answers if many else answers[0]

    def predict_proba(self, source: Any) -> list[list[float]]:
        """The probability of each class, of a list of images."""
        if self._core.regression:
            raise UsageError(f"predict_proba: {self.path} gives numbers; use predict")
        return [list(one[1]) for one in self._said(source, "predict_proba")[1]]

    def _said(self, source: Any, called: str) -> tuple[bool, list[Any]]:
        """Whether these are several images, and what the model says of each."""
        many = isinstance(source, (list, tuple)) or self._is_batch(getattr(source, "shape", ()), called)
        images = list(source) if many else [source]
        files = [isinstance(one, (str, os.PathLike)) for one in images]
        if all(files):
            return many, list(self._core.predict_files([os.fspath(one) for one in images]))
        if any(files):
            raise UsageError(f"{called}: give either paths or arrays")
        return many, list(self._core.predict_pixels([self._pixels(one, called) for one in images]))

    def _is_batch(self, shape: tuple[int, ...], called: str) -> bool:
        self._check_channels_last(shape[1:] if len(shape) == 4 else shape, called)
        most_channels = 4  # but where the model has more
        return len(shape) == 4 or (len(shape) == 3 and shape[2] > most_channels and shape[2] != self._core.input[0])

    def _check_channels_last(self, shape: tuple[int, ...], called: str) -> None:
        """Throws UsageError for an image (C,H,W)."""
        channels = self._core.input[0]
        if channels != 1 and is_channels_first(shape) and shape[0] == channels and shape[2] != channels:
            fix = f"image.transpose(1, 2, 0) of each; {channels} gray images are a list of them"
            raise UsageError(f"{called}: {tuple(shape)} looks like an image (C,H,W); give (H,W,C): {fix}")

    def _pixels(self, image: Any, called: str) -> Any:
        import numpy as np

        try:
            pixels = None if isinstance(image, (Data, Loader, dict)) else np.asarray(image)
        except ValueError:  # lists of unequal sizes
            pixels = None
        if pixels is None or pixels.dtype.kind not in "biuf" or pixels.ndim == 0:
            raise UsageError(f"{called}: takes a path, an array (H,W) or (H,W,C), an image of Pillow, or a list of these, not a {type(image).__name__}")
        self._check_channels_last(pixels.shape, called)
        return np.ascontiguousarray(pixels)

    __call__ = predict

    def _answer(self, said: tuple[str, list[float], list[int], bool], topk: int | None) -> Prediction | Numbers:
        unreadable, probabilities, classes, _ = said
        names = self._core.class_names
        if self._core.regression:
            numbers = Numbers(zip(names, probabilities)) if not unreadable else Numbers()
            numbers.unreadable = unreadable
            return numbers
        answer = Prediction((names[one], probabilities[one]) for one in classes[:topk])
        answer.unreadable = unreadable
        return answer

    def __repr__(self) -> str:
        names = self._core.class_names
        return f"Predictor({self.path!r}, {', '.join(names) if self._core.regression else f'{len(names)} classes'})"


class Session:
    """An ONNX model or a function that answers with tensors; inputs and outputs have names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._core = _core.Session.open(path)

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs."""
        return list(self._core.inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return list(self._core.outputs)

    def run(self, *inputs: Any) -> list[Tensor]:
        """The outputs for inputs in the order of `inputs`."""
        return list(self._core.run([one if isinstance(one, Tensor) else Tensor(one) for one in inputs]))

    __call__ = run

    def __repr__(self) -> str:
        return f"Session({self.path!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"


def load(path: str | os.PathLike[str], *, batch: int = 16) -> Any:
    """A trained model, a Predictor or a Session: a run, weights, a folder of timm, a function or an ONNX file. Classifiers of images answer by classes.

    ONNX files that say nothing of classes and preprocessing are a Session, which takes and gives tensors.
    """
    name = os.fspath(path)
    try:
        return Predictor.open(name, batch)
    except _core.Error:
        if not name.endswith(".onnx"):
            raise
        return Session(name)
