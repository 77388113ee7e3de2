"""Trainings and what they leave: a run is a folder, as `neurim train` writes it."""

from __future__ import annotations

import atexit
import html
import json
import os
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from .callbacks import Callback, EarlyStopping, checked
from .data import Data, arrays, check_pair, gives_batches
from .data import open as open_data
from .options import _words, canonical, of_data, size_of
from .reports import Evaluation, Metrics, Table, images_html


_OF_INPUT = ("imgsz", "in_chans", "resize", "crop_pct", "interpolation", "exif", "decode", "bits", "alpha_bg", "mean", "std")

atexit.register(_core.end_trainings)  # of other threads, while there still is an interpreter


class Export:
    """What an export wrote, and how it answers beside its model: `parity.top1_agreement` and others."""

    def __init__(self, path: str, parity: dict[str, Any]) -> None:
        self.path, self.parity = path, Metrics(parity)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Export({self.path!r})"


class Fitted(NamedTuple):
    """What a Module remembers of its last training."""

    weights: Path  # with the metadata of classes and of what is done to images
    class_names: list[str]
    height: int
    channels: int
    regression: bool  # then class_names are what its numbers are called


class Source(NamedTuple):
    """What a run's folder does not say: a Module of one's own, or data in memory."""

    model: Any
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
        return float(self.metrics[name])

    def evaluate(self, split: str = "val", data: str | os.PathLike[str] | Data | None = None, **options: Any) -> Evaluation:
        """The metrics of the best weights on a split: top1, top5, f1_macro, loss and others, and the report of them.

        `data`: by default those of training. The report is a folder in that of the run, as `neurim val` writes it.
        """
        if not isinstance(split, str):
            raise _core.UsageError(f"evaluate: the split is a name such as 'val', not a {type(split).__name__}; give data by name: run.evaluate(data=…)")
        if self._source is not None:
            opened = self._source.data if data is None else data
            with _kept(self._source.core) as core:
                return Evaluation(*_evaluated(core, opened, split, options, self.model, self._source.data.class_names))
        if isinstance(data, Data):
            core, class_names = _core.open_model(str(self.path))
            return Evaluation(*_evaluated(core, data, split, options, self.model, class_names))
        if data is not None:
            options["data"] = _path_of(data, "evaluate")
        summary = _summary(command("val", model=self.path, split=split, **options))
        return Evaluation({name: value for name, value in summary.items() if isinstance(value, (int, float))}, summary["run"])

    def predict(self, source: Any, topk: int | None = None) -> Any:
        """What images show; see Predictor.predict."""
        from .models import Predictor

        if self._source is not None:
            with _kept(self._source.core) as core:
                return Predictor.of(core, self.model).predict(source, topk)
        return Predictor.open(self.path).predict(source, topk)

    def export(self, format: str = "onnx", **options: Any) -> Export:
        """Writes the model as onnx, neurim, openvino, engine, triton, pt or timm; options as of `neurim export`.

        `output`: where to; folders of it that are not there are made.
        A Module of one's own is written as onnx, of any number of images; with `dynamic=False` of one.
        """
        if self._source is not None:
            if format != "onnx" or options.keys() - {"output", "dynamic"}:
                raise _core.UsageError("export: a Module of one's own is exported as onnx, with the options output and dynamic alone")
            path = str(options.get("output", self.path / "export" / "best.onnx"))
            with _kept(self._source.core) as core:
                return _exported(core, self.model, path, options.get("dynamic", True), False)
        summary = _summary(command("export", model=self.path, format=format, **options))
        parity = {name: value for name, value in summary.items() if name not in ("event", "path", "files", "bytes")}
        return Export(str(summary["path"]), parity)

    def quantize(self, **options: Any) -> Export:
        """Makes the model one of 8 or 4 bits; options as of `neurim quantize`."""
        summary = _summary(command("quantize", model=self.path, **options))
        return Export(str(summary.get("model") or summary.get("path")), summary)

    def resume(self, epochs: int | None = None, *, callbacks: Callback | Sequence[Callback] = (), verbose: bool = True) -> Run:
        """Goes on from the last saved state; see neurim.resume."""
        if self._source is not None:
            return _resumed(str(self.path), self._source, epochs, checked(callbacks, "resume"), verbose)
        return resume(self.path, epochs, callbacks=callbacks, verbose=verbose)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The metrics of each epoch."""
        lines = (self.path / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def results(self) -> Table:
        """The table of epochs; `results().frame()` is one of pandas."""
        return Table.read(self.path / "results.csv")

    def _repr_html_(self) -> str:
        shown = images_html(self.path, "results.png", "confusion_matrix.png")
        return f"<p>{html.escape(str(self.path))}</p>{self.metrics._repr_html_()}{shown}"

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
    size = data._core.image_size
    imgsz = None if options.get("imgsz") is None else size_of(options["imgsz"], "fit")
    if size is None and imgsz is None:
        raise _core.UsageError("fit: the images may have any size; give imgsz, to which they are brought")
    height = size[0] if imgsz is None else imgsz[0]
    return _core_of_module(model, height, options.get("in_chans") or (size[2] if size else 3), data.classes)


def _core_of_module(model: Any, height: int, channels: int, classes: int) -> Any:
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
    return _core.model_of(type(model).__name__, call, tensors, height, channels, classes)


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


def train(*, callbacks: Callback | Sequence[Callback] = (), verbose: bool = True, **options: Any) -> Run:
    """What `neurim train` does, with its options: data, model, epochs, … Ctrl-C stops after the step, saved, with KeyboardInterrupt."""
    listeners = checked(callbacks, "train")
    words = _words({**canonical(options), **_asked(listeners)})
    return _finish(_core.train(words, _printer(verbose), _listen(listeners)), listeners)


def resume(
    run: str | os.PathLike[str],
    epochs: int | None = None,
    *,
    model: Any = None,
    data: Data | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    verbose: bool = True,
) -> Run:
    """Goes on with a run from its last saved state, bit for bit as if it had not stopped; `epochs`: how many in all.

    `model`, `data`: those of a training of a Module of one's own, or of data in memory, made as they were made for it.
    """
    if (model is None) != (data is None):
        raise _core.UsageError("resume: model and data go together: give both where the training had a Module of its own or data in memory")
    listeners = checked(callbacks, "resume")
    if model is None or data is None:
        if _lacks_source(Path(run)):
            raise _core.UsageError(
                f"{os.fspath(run)}: was trained with a Module of its own or data in memory; give them as they were: nm.resume(run, model=…, data=…)"
            )
        return _finish(_core.resume(os.fspath(run), epochs, _printer(verbose), _listen(listeners)), listeners)
    if not isinstance(data, Data):
        raise _core.UsageError(f"resume: data is a {type(data).__name__}; give the Data of nm.data.arrays, nm.data.samples or nm.data.open")
    channels, height, _ = _core.input_of(os.path.join(run, "weights", "last.safetensors"))
    core = getattr(model, "_core", None) or _core_of_module(model, height, channels, data.classes)
    return _resumed(os.fspath(run), Source(model, core, data, data.options), epochs, listeners, verbose)


def _lacks_source(run: Path) -> bool:
    """Whether a run cannot go on from its folder alone: its data lay in memory, or its model has no name that Neurim knows."""
    try:
        if 'data: ""' in (run / "args.yaml").read_text(encoding="utf-8").splitlines():
            return True
        own = json.loads((run / "weights" / "model.json").read_text(encoding="utf-8"))["neurim"]
    except (OSError, ValueError, KeyError):
        return False
    return "preprocess" in own and "model_file" not in own and own.get("model") not in _core.model_names()


def _resumed(run: str, source: Source, epochs: int | None, listeners: Sequence[Callback], verbose: bool) -> Run:
    result = _core.resume_model(source.core, source.data._core, run, epochs, _printer(verbose), _listen(listeners))
    _remember(source.model, source.core, source.data, result)
    return _finish(result, listeners, source)


def _path_of(data: Any, called: str) -> str:
    """The path of data on disk. Throws UsageError for what is none, and says what to give."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    if (why := gives_batches(data)) is None:
        kind = f"a {type(data).__name__}"
        if hasattr(data, "shape"):
            why = f"{kind} {tuple(data.shape)} without labels; give images and labels, or nm.data.arrays(images, labels)"
        elif hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (bytes, dict)):
            why = f"{kind}; give nm.data.samples(data)"
        else:
            why = f"{kind}; give a Data, a path, or images and labels"
    raise _core.UsageError(f"{called}: data is {why}")


def _data_of(data: Any, labels: Any, validation: Any, options: dict[str, Any], called: str) -> Data:
    """The data of a call: a Data, a path, or images with labels, as two arrays or a pair of them."""
    if labels is None and isinstance(data, (tuple, list)):
        if len(data) != 2:
            raise _core.UsageError("data: give images and labels, or pairs of an image and a label as nm.data.samples(pairs)")
        data, labels = data
    if labels is None:
        if validation is not None:
            raise _core.UsageError("validation_data: goes with images and labels in memory; other data have a val split, or val_split=")
        return data if isinstance(data, Data) else open_data(_path_of(data, called), **of_data(options))
    if isinstance(data, (Data, str, os.PathLike)):
        raise _core.UsageError(f"{called}: a {type(data).__name__} has labels of its own; leave out the labels")
    if validation is not None:
        check_pair(validation, "validation_data")
    names, targets = options.pop("classes", None), options.pop("target_names", None)
    return arrays(data, labels, class_names=names, target_names=targets, val=validation, **of_data(options))


def fit_model(model: Any, data: Any, labels: Any, options: dict[str, Any]) -> Run:
    """Trains a model of create_model, or a Module of one's own, on the data; see Module.fit."""
    options = dict(options)
    callbacks, verbose, validation = checked(options.pop("callbacks", ()), "fit"), options.pop("verbose", True), options.pop("validation_data", None)
    if "validation_split" in options:
        if options.get("val_split") is not None:
            raise _core.UsageError("validation_split and val_split are the same option; give one of them")
        options["val_split"] = options.pop("validation_split")
    options = canonical(options)
    opened = _data_of(data, labels, validation, options, "fit")
    given = {**opened.options, **_asked(callbacks), **options}
    core = core_of(model, opened, given)
    given.setdefault("model", core.name)
    on_disk = opened.path not in ("arrays", "samples")
    if on_disk:
        given["data"] = opened.path
    result = _core.train_model(core, opened._core, _words(given), _printer(verbose), _listen(callbacks))
    known = on_disk and core is getattr(model, "_core", None)  # then the folder says all of it
    _remember(model, core, opened, result)
    return _finish(result, callbacks, None if known else Source(model, core, opened, given))


def _remember(model: Any, core: Any, data: Data, result: dict[str, Any]) -> None:
    model._fitted = Fitted(Path(result["run"], "weights", "last.safetensors"), data.class_names, core.image_size, core.in_chans, data.regression)


def evaluate_model(model: Any, data: Any, labels: Any, split: str | None, options: dict[str, Any]) -> Metrics:
    """The metrics of a model's present weights on a split; see Module.evaluate."""
    if isinstance(labels, str):
        raise _core.UsageError(f"evaluate: the labels are the text '{labels}'; a split is given by name: split='{labels}'")
    known: Fitted | None = model._fitted
    options = canonical(options)
    if labels is not None or isinstance(data, (tuple, list)):
        names = {"target_names" if known.regression else "classes": known.class_names} if known is not None else {}
        options = {**({"val_split": 0} if split is None else {}), **names, **options}
        data, split = _data_of(data, labels, None, options, "evaluate"), split or "train"
    if known is not None:
        core, _ = _fitted(model, "evaluate")
        return Metrics(_evaluated(core, data, split or "val", options, known.weights, known.class_names, present=True)[0])
    opened = data if isinstance(data, Data) else open_data(_path_of(data, "evaluate"), **of_data(options))
    given = {**opened.options, **options}
    metrics, _ = _core.evaluate_model(core_of(model, opened, given), opened._core, split or "val", _words(given), None, True, True, False)
    return Metrics(metrics)


def _evaluated(
    core: Any, data: Any, split: str, options: dict[str, Any], weights: Path, class_names: list[str], *, present: bool = False
) -> tuple[dict[str, Any], str]:
    """Metrics of a model that was trained to these classes, and the folder of the report of weights that are not its present ones."""
    options = canonical(options)
    own = {} if options.get("classes") is not None else {"class_names": class_names}
    opened = data if isinstance(data, Data) else open_data(_path_of(data, "evaluate"), **own, **of_data(options))
    if opened.class_names != class_names:
        raise _core.UsageError(f"evaluate: the data have {_listed(opened.class_names)}, and the model was trained to {_listed(class_names)}; open them with class_names=")
    given = {**{name: value for name, value in opened.options.items() if name not in _OF_INPUT}, **options}
    own_input = any(name in options for name in _OF_INPUT)
    said: tuple[dict[str, Any], str] = _core.evaluate_model(core, opened._core, split, _words(given), str(weights), present, own_input, not present)
    return said


def _listed(names: list[str]) -> str:
    most = 10
    return f"[{', '.join(names[:most])}{', …' if len(names) > most else ''}]"


def _fitted(model: Any, what: str) -> tuple[Any, Fitted]:
    """The model as C++ has it, and what is known of its last training."""
    if model._fitted is None:
        raise _core.UsageError(f"{what}: the model was not trained here, so its classes and what is done to images are unknown; call fit, or nm.load a run")
    known: Fitted = model._fitted
    return getattr(model, "_core", None) or _core_of_module(model, known.height, known.channels, len(known.class_names)), known


def predict_model(model: Any, source: Any, topk: int | None) -> Any:
    """What images show by a model's present weights; see Module.predict."""
    from .models import Predictor

    core, known = _fitted(model, "predict")
    return Predictor.of(core, known.weights, present=True).predict(source, topk)


def export_model(model: Any, path: str | os.PathLike[str], dynamic: bool) -> Export:
    """A model's present weights as ONNX; see Module.export."""
    core, known = _fitted(model, "export")
    return _exported(core, known.weights, os.fspath(path), dynamic, True)


def _exported(core: Any, weights: Path, path: str, dynamic: bool, present: bool) -> Export:
    try:
        return Export(_core.export_onnx(core, str(weights), path, dynamic, present)[0], {})
    except _core.UsageError as error:
        if not dynamic:
            raise
        raise _core.UsageError(f"export: for any number of images: {error}; dynamic=False exports the model for one") from None


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
