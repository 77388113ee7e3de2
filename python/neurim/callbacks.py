"""What is told of a training while it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._core import UsageError


class Callback:
    """Methods that a training calls; each does nothing here."""

    def on_epoch_end(self, epoch: int, metrics: dict[str, Any]) -> None:
        """After the validation of an epoch, counted from 1: losses, learning rate, samples a second and the task's metrics."""

    def on_train_end(self, run: Any) -> None:
        """When the training has ended; `run`: the Run."""


def checked(given: Any, called: str) -> list[Callback]:
    """One callback, or several, as a list. Throws UsageError for what a training cannot call."""

    def is_one(what: Any) -> bool:
        return not isinstance(what, type) and all(callable(getattr(what, name, None)) for name in ("on_epoch_end", "on_train_end"))

    if given is None or is_one(given):
        return [] if given is None else [given]
    several = list(given) if hasattr(given, "__iter__") and not isinstance(given, (str, bytes, dict, type)) else [given]
    for one in several:
        if isinstance(one, type):
            raise UsageError(f"{called}: the callback {one.__name__} is a class; give an object of it: {one.__name__}()")
        if not is_one(one):
            raise UsageError(f"{called}: the callback of type {type(one).__name__} lacks on_epoch_end or on_train_end; derive it from nm.Callback")
    return several


class EarlyStopping(Callback):
    """Ends the training after so many epochs in which `monitor` has not become better. It is the options of `fit` in another form."""

    def __init__(self, monitor: str = "auto", patience: int = 5) -> None:
        self.monitor, self.patience = monitor, patience

    def options(self) -> dict[str, Any]:
        """The options of the training that this one asks for."""
        return {"monitor": self.monitor, "patience": self.patience}


class WandbLogger(Callback):
    """Logs each epoch to Weights & Biases: `wandb.init(**config)` when the first one ends. Needs the package wandb."""

    def __init__(self, **config: Any) -> None:
        self._config = config
        self._run: Any = None

    def on_epoch_end(self, epoch: int, metrics: dict[str, Any]) -> None:
        if self._run is None:
            self._run = import_module("wandb").init(**self._config)
        self._run.log(metrics, step=epoch)

    def on_train_end(self, run: Any) -> None:
        if self._run is not None:
            self._run.finish()


class MlflowLogger(Callback):
    """Logs each epoch to the active run of MLflow. Needs the package mlflow."""

    def on_epoch_end(self, epoch: int, metrics: dict[str, Any]) -> None:
        numbers = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
        import_module("mlflow").log_metrics(numbers, step=epoch)
