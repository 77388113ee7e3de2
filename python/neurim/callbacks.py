"""What is told of a training while it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Callback:
    """Methods that a training calls; each does nothing here."""

    def on_epoch_end(self, epoch: int, metrics: dict[str, Any]) -> None:
        """After the validation of an epoch, counted from 1: losses, learning rate, samples a second and the task's metrics."""

    def on_train_end(self, run: Any) -> None:
        """When the training has ended; `run`: the Run."""


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
