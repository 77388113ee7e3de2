"""Trainings and what they leave: a run is a folder, as `neurim train` writes it."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from .callbacks import Callback, EarlyStopping
from .data import Data, _words
from .data import open as open_data


atexit.register(_core.end_trainings)  # of other threads, while there still is an interpreter


class Metrics(dict[str, float]):
    """Metrics by name, which are attributes too: `metrics.top1`."""

    def __getattr__(self, name: str) -> float:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no metric '{name}'; known are {', '.join(self)}") from None

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{name}</th><td>{value:.4g}</td></tr>" for name, value in self.items() if isinstance(value, (int, float)))
        return f"<table>{rows}</table>"


class Export:
    """What an export wrote."""

    def __init__(self, path: str, parity: dict[str, Any]) -> None:
        self.path, self.parity = path, parity

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Export({self.path!r})"


class Source(NamedTuple):
    """What a run's folder does not say: a Module of one's own, or data in memory."""

    core: Any
    data: Data
    options: dict[str, Any]


class Run:
    """A training on disk."""

    def __init__(self, path: str | os.PathLike[str], *, metrics: dict[str, float] | None = None, source: Source | None = None) -> None:
        self.path = Path(path)
        self._source = source
        self.metrics = Metrics(metrics or {})

    @property
    def model(self) -> Path:
        """The file of the best weights."""
        return self.path / "weights" / "best.safetensors"

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name not in self.metrics:
            raise AttributeError(f"Run has no attribute '{name}'")
        return self.metrics[name]

    def evaluate(self, split: str = "val", data: str | os.PathLike[str] | Data | None = None, **options: Any) -> Metrics:
        """The metrics of the best weights on a split: top1, top5, f1_macro, loss and others.

        `data`: by default those of training. With a path, pages and tables are left in the run's folder, as `neurim val` does.
        """
        if self._source is not None:
            opened = self._source.data if data is None else data if isinstance(data, Data) else open_data(data)
            words = _words({**self._source.options, **options})
            with _kept(self._source.core) as core:
                core.load(str(self.model), False)
                return Metrics(_core.evaluate_model(core, opened._core, split, words))
        if data is not None:
            options["data"] = data.path if isinstance(data, Data) else data
        return Metrics(_summary(command("val", model=self.path, split=split, **options)))

    def predict(self, source: Any, topk: int | None = None) -> Any:
        """What images show; see Predictor.predict."""
        from .models import Predictor

        if self._source is not None:
            with _kept(self._source.core) as core:
                return Predictor.of(core, self.model).predict(source, topk)
        return Predictor.open(self.path).predict(source, topk)

    def export(self, format: str = "onnx", **options: Any) -> Export:
        """Writes the model as onnx, neurim, openvino, engine, triton, pt or timm; options as of `neurim export`.

        A Module of one's own is written as onnx, of one image at a time; with `dynamic=True` of any number of them, for which
        it must not use the batch's size in reshapes.
        """
        if self._source is not None:
            if format != "onnx" or options.keys() - {"output", "dynamic"}:
                raise _core.UsageError("export: a Module of one's own is exported as onnx, with the options output and dynamic alone")
            path = str(options.get("output", self.path / "export" / "best.onnx"))
            with _kept(self._source.core) as core:
                return Export(_core.export_onnx(core, str(self.model), path, options.get("dynamic", False))[0], {})
        summary = _summary(command("export", model=self.path, format=format, **options))
        return Export(str(summary["path"]), {name: value for name, value in summary.items() if name != "path"})

    def quantize(self, **options: Any) -> Export:
        """Makes the model one of 8 or 4 bits; options as of `neurim quantize`."""
        summary = _summary(command("quantize", model=self.path, **options))
        return Export(str(summary.get("model") or summary.get("path")), summary)

    def resume(self, epochs: int | None = None, *, callbacks: Sequence[Callback] = (), verbose: bool = True) -> Run:
        """Goes on from the last saved state; see neurim.resume."""
        if self._source is not None:
            return _resumed(str(self.path), self._source, epochs, callbacks, verbose)
        return resume(self.path, epochs, callbacks=callbacks, verbose=verbose)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The metrics of each epoch."""
        lines = (self.path / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def results(self) -> Any:
        """The table of epochs as a frame of pandas."""
        return import_module("pandas").read_csv(self.path / "results.csv")

    def _repr_html_(self) -> str:
        import base64

        images = [self.path / name for name in ("results.png", "confusion_matrix.png")]
        shown = "".join(f'<img src="data:image/png;base64,{base64.b64encode(one.read_bytes()).decode()}">' for one in images if one.exists())
        return f"<p>{self.path}</p>{self.metrics._repr_html_()}{shown}"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items() if name in ("top1", "f1_macro", "loss", "map", "mae", "r2"))
        return f"Run({str(self.path)!r}{': ' if shown else ''}{shown})"


def core_of(model: Any, data: Data, options: dict[str, Any]) -> Any:
    """The model as C++ has it: of create_model, or a Module of one's own, which gets images (N,C,H,W) and gives logits."""
    core = getattr(model, "_core", None)
    if core is not None:
        if any(True for _ in model.parameters()) and len(list(model.parameters(learnt=True))) < len(list(model.parameters())):
            raise _core.UsageError("fit: a model of create_model is trained whole, and some of its parameters are frozen; use a loop of your own")
        return core
    size, imgsz = data._core.image_size, options.get("imgsz")
    if size is None and imgsz is None:
        raise _core.UsageError("fit: the images may have any size; give imgsz, to which they are brought")
    height = size[0] if imgsz is None else imgsz if isinstance(imgsz, int) else imgsz[0]
    channels = options.get("in_chans") or (size[2] if size else 3)

    def call(x: Any) -> Any:
        modes = [(module, module.training) for module in model.modules()]
        if not _core.training():
            model.eval()
        elif not model.training:
            model.train()
        try:
            return model(x)
        finally:
            for module, mode in modes:
                module.training = mode

    frozen = {id(tensor) for tensor in model.parameters()} - {id(tensor) for tensor in model.parameters(learnt=True)}
    tensors = [(name, tensor, id(tensor) not in frozen) for name, tensor in model.named_parameters()]
    tensors += [(name, tensor, False) for name, tensor in model.named_buffers()]
    return _core.model_of(type(model).__name__, call, tensors, height, channels, data.classes)


@contextmanager
def _kept(core: Any) -> Iterator[Any]:
    """The model, whose weights are afterwards what they were before."""
    before = [(tensor, tensor.clone()) for _, tensor, _ in core.tensors()]
    try:
        yield core
    finally:
        for tensor, value in before:
            tensor.assign(value)


def _listen(callbacks: Sequence[Callback]) -> Any:
    def event(line: str) -> None:
        said = json.loads(line)
        if said.get("event") == "epoch":
            for one in callbacks:
                one.on_epoch_end(said["epoch"], {name: value for name, value in said.items() if name not in ("event", "epoch")})

    return event


def _printer(verbose: bool) -> Any:
    return (lambda line: print(line, flush=True)) if verbose else None


def _finish(result: dict[str, Any], callbacks: Iterable[Callback], source: Source | None = None) -> Run:
    run = Run(result["run"], metrics=result["metrics"], source=source)
    for one in callbacks:
        one.on_train_end(run)
    return run


def _asked(callbacks: Sequence[Callback]) -> dict[str, Any]:
    return {name: value for one in callbacks if isinstance(one, EarlyStopping) for name, value in one.options().items()}


def train(*, callbacks: Sequence[Callback] = (), verbose: bool = True, **options: Any) -> Run:
    """What `neurim train` does, with its options: data, model, epochs, … Ctrl-C stops after the step, saved, with KeyboardInterrupt."""
    return _finish(_core.train(_words({**options, **_asked(callbacks)}), _printer(verbose), _listen(callbacks)), callbacks)


def resume(
    run: str | os.PathLike[str],
    epochs: int | None = None,
    *,
    model: Any = None,
    data: Data | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
) -> Run:
    """Goes on with a run from its last saved state, bit for bit as if it had not stopped; `epochs`: how many in all.

    `model`, `data`: those of a training of a Module of one's own, or of data in memory, made as they were made for it.
    """
    if (model is None) != (data is None):
        raise _core.UsageError("resume: model and data go together: give both where the training had a Module of its own or data in memory")
    if model is None or data is None:
        return _finish(_core.resume(os.fspath(run), epochs, _printer(verbose), _listen(callbacks)), callbacks)
    return _resumed(os.fspath(run), Source(core_of(model, data, data.options), data, data.options), epochs, callbacks, verbose)


def _resumed(run: str, source: Source, epochs: int | None, callbacks: Sequence[Callback], verbose: bool) -> Run:
    result = _core.resume_model(source.core, source.data._core, run, epochs, _printer(verbose), _listen(callbacks))
    return _finish(result, callbacks, source)


def fit_model(model: Any, data: Data | str | os.PathLike[str], options: dict[str, Any]) -> Run:
    """Trains a model of create_model, or a Module of one's own, on the data.

    Options are those of `neurim train` (epochs, batch, lr, opt, sched, imgsz, mixup, precision, …), and callbacks and verbose.
    The weights of the model become the last ones of the training; those of the best epoch are in the run's folder.
    """
    options = dict(options)
    if isinstance(data, (tuple, list)):
        raise _core.UsageError("fit: give images and labels as nm.data.arrays(images, labels), or pairs as nm.data.samples(pairs)")
    callbacks, verbose = options.pop("callbacks", ()), options.pop("verbose", True)
    opened = data if isinstance(data, Data) else open_data(data)
    given = {**opened.options, **_asked(callbacks), **options}
    core = core_of(model, opened, given)
    given.setdefault("model", core.name)
    on_disk = opened.path not in ("arrays", "samples")
    if on_disk:
        given["data"] = opened.path
    result = _core.train_model(core, opened._core, _words(given), _printer(verbose), _listen(callbacks))
    known = on_disk and core is getattr(model, "_core", None)  # then the folder says all of it
    return _finish(result, callbacks, None if known else Source(core, opened, given))


def evaluate_model(model: Any, data: Data | str | os.PathLike[str], split: str, options: dict[str, Any]) -> Metrics:
    """The metrics of a model's present weights on a split."""
    opened = data if isinstance(data, Data) else open_data(data)
    given = {**opened.options, **options}
    return Metrics(_core.evaluate_model(core_of(model, opened, given), opened._core, split, _words(given)))


def _neurim() -> str:
    """The command that came with the package: in a build beside it, else where pip has put it."""
    if "NEURIM" in os.environ:
        return os.environ["NEURIM"]
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    places = [Path(_core.__file__).resolve().parents[2], *(Path(sysconfig.get_path("scripts", one)) for one in schemes)]
    for place in places:
        if (place / "neurim").is_file():
            return str(place / "neurim")
    raise _core.ResourceError(f"the command neurim is in none of {', '.join(map(str, places))}; set the variable NEURIM to its path")


def command(verb: str, *words: str, **options: Any) -> list[dict[str, Any]]:
    """Runs a verb of the `neurim` command, with options by name, and gives its events: what `--json` prints.

    Throws the error that its exit code stands for, with its line.
    """
    line = [_neurim(), verb, *words, *(f"{name}={word}" for name, word in _words(options)), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    events = [json.loads(one) for one in done.stdout.splitlines() if one.startswith("{")]
    if done.returncode not in (0, 5):
        kinds = {2: _core.UsageError, 3: _core.DataError, 4: _core.ResourceError}
        said = done.stderr.strip().splitlines()
        raise kinds.get(done.returncode, _core.FailureError)(said[-1] if said else f"neurim {verb} ended with exit code {done.returncode}")
    return events


def _summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next((one for one in reversed(events) if one.get("event") == "summary"), {})
