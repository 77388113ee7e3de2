"""Neural networks as estimators of scikit-learn: for tables, pipelines and searches, and for images with a module.

Needs scikit-learn 1.6 or newer; `import neurim` alone does not import it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
)
from sklearn.utils import check_random_state  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils.multiclass import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    check_classification_targets,
)
from sklearn.utils.validation import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from . import functional, nn, optim
from ._core import Tensor
from .arrays import _readable
from .ml import _whole
from .module import Module
from .tensors import seed, tensor
from .transforms import compile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["NeurimClassifier", "NeurimRegressor"]

_Self = TypeVar("_Self", bound="_NeurimEstimator")

_BATCH = 256  # rows of a table that predict together


class _NeurimEstimator(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """Base of the estimators: training, prediction, and pickles with the weights as arrays."""

    _network: Module
    _forward: Callable[[Tensor], Tensor]

    def __init__(
        self,
        hidden: Sequence[int] = (64, 64),
        *,
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 3e-3,
        weight_decay: float = 1e-2,
        module: Callable[[int, int], Module] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.module = module
        self.random_state = random_state
        self.verbose = verbose

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        # Frames stay what they are: scikit-learn reads them, and keeps the names of their columns.
        given = [_readable(one, name) for one, name in zip((X, *y), "Xy", strict=False)]
        return validate_data(self, *given, dtype=[np.float64, np.float32], allow_nd=self.module is not None, **options)

    def _losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Returns the loss of each row, (rows,)."""
        raise NotImplementedError

    def _build(self) -> Module:
        if self.module is not None:
            return self.module(self.n_features_in_, self._outputs)
        layers: list[Module] = []
        width = self.n_features_in_
        for size in self.hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        return nn.Sequential(*layers, nn.Linear(width, self._outputs))

    def _train(self, X: NDArray[Any], target: NDArray[Any], outputs: int, sample_weight: Any) -> None:
        """Trains on X (rows, features, …) and the target (rows, …) of `_losses`."""
        for name in ("epochs", "batch_size"):
            _whole(getattr(self, name), name)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("sample_weight: all weights are zero; at least one has to be positive")
        weights = (weights / weights.mean()).astype(np.float32)
        self._outputs = outputs
        self._center, self._scale = _standardization(X)
        inputs = ((X - self._center) / self._scale).astype(np.float32)

        number = int(check_random_state(self.random_state).randint(2**31 - 1))
        draws = np.random.default_rng(number)
        seed(number)
        network = self._build()
        optimizer = optim.AdamW(network.parameters(), lr=self.lr, weight_decay=self.weight_decay)

        def train(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            loss = (self._losses(network(x), y) * weight).mean()
            optimizer.minimize(loss)
            return loss

        step = compile(train, training=True, seed=number)
        rows = min(self.batch_size, len(inputs))
        steps = math.ceil(len(inputs) / rows)
        self.loss_curve_: list[float] = []
        for epoch in range(self.epochs):
            # The last batch is filled from the first one, so that all have one shape and one plan.
            order = np.resize(draws.permutation(len(inputs)), (steps, rows))
            total = 0.0
            for place, chosen in enumerate(order):
                optimizer.lr = optim.cosine_lr(self.lr, epoch * steps + place, self.epochs * steps)
                total += step(*(tensor(array[chosen]) for array in (inputs, target, weights))).item()
            if not math.isfinite(total):
                raise ValueError(f"the loss of epoch {epoch + 1} is not finite; lower lr, which is {self.lr}")
            self.loss_curve_.append(total / steps)
            if self.verbose:
                print(f"epoch {epoch + 1}/{self.epochs}: loss {self.loss_curve_[-1]:.4g}")
        self._network, self._forward = network, compile(network)

    def _outputs_of(self, X: Any) -> NDArray[np.float64]:
        """Returns the network's outputs (rows, outputs)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        outputs = np.empty((len(X), self._outputs))
        # Batches have one size whatever the number of rows: one plan, and a row's outputs do not depend on others.
        size = _BATCH if X.ndim == 2 else self.batch_size
        for first in range(0, len(X), size):
            rows = X[first : first + size]
            batch = np.zeros((size, *X.shape[1:]), np.float32)
            batch[: len(rows)] = (rows - self._center) / self._scale
            outputs[first : first + size] = np.asarray(self._forward(tensor(batch)).numpy())[: len(rows)]
        if not np.isfinite(outputs).all():
            raise ValueError("the outputs of the network are not finite: its weights or X are too large; lower lr, or scale X as in training")
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_network" in state:
            state["_network"] = {name: tensor.numpy() for name, tensor in self._network.state_dict().items()}
            del state["_forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_network" in state:
            self._network = self._build()
            self._network.load_state_dict(state["_network"])
            self._forward = compile(self._network)


def _standardization(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean and std of each feature, or of channels of (rows, channels, …), that broadcast; a std of 0 is 1."""
    axes = (0, *range(2, values.ndim))
    center = values.mean(axis=axes, dtype=np.float64, keepdims=True)[0]
    scale = values.std(axis=axes, dtype=np.float64, keepdims=True)[0]
    return center, np.where(scale <= 1e-12 * np.abs(center), 1.0, scale)


class NeurimClassifier(ClassifierMixin, _NeurimEstimator):  # type: ignore[misc, unused-ignore]
    """A neural network that classifies: by default a perceptron with ReLU between its layers.

    Trains with AdamW (Loshchilov and Hutter, 2019), on cross entropy, with a learning rate that falls from `lr` to 0
    along a cosine. Features, or the channels of images, are standardized inside.

    hidden: sizes of the hidden layers.
    epochs, batch_size: how often each row is seen, and how many at a time.
    lr, weight_decay: of AdamW.
    module: builds another network from the number of inputs (features, or channels of images) and outputs (classes).
        Rows may then be of any shape, as images (rows, channels, height, width). It has to be a function of a module
        for the estimator to be pickled.
    random_state: a number, a RandomState, or None for another network at each fit. Seeds `nm.seed`, too.
    verbose: whether each epoch prints its loss.

    After `fit`: classes_, n_features_in_, feature_names_in_ (of data frames), loss_curve_ (one mean loss an epoch).
    """

    def fit(self: _Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> _Self:
        """Trains on X (rows, features) and classes y (rows), numbers or texts; weights of rows are optional."""
        X, y = self._validated(X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self._train(X, numbers.astype(np.int64), len(self.classes_), sample_weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class (rows, classes), in the order of `classes_`."""
        logits = self._outputs_of(X)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the most probable class of each row of X (rows, features)."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def _losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, target, reduction="none")


class NeurimRegressor(RegressorMixin, _NeurimEstimator):  # type: ignore[misc, unused-ignore]
    """A neural network that predicts one or several numbers; parameters and training as of NeurimClassifier.

    loss: "mse", "l1" or "huber" (Huber, 1964). Targets are standardized inside, so "huber" is absolute for errors
        beyond one std of the target.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (64, 64),
        *,
        loss: str = "mse",
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 3e-3,
        weight_decay: float = 1e-2,
        module: Callable[[int, int], Module] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            weight_decay=weight_decay,
            module=module,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    def fit(self: _Self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> _Self:
        """Trains on X (rows, features) and targets y (rows) or (rows, targets); weights of rows are optional."""
        if self.loss not in ("mse", "l1", "huber"):
            raise ValueError(f"loss is '{self.loss}'; it is 'mse', 'l1' or 'huber'")
        X, targets = self._validated(X, y, multi_output=True, y_numeric=True)
        self._target_shape = targets.shape[1:]
        targets = targets.reshape(len(targets), -1)
        self._target_center, self._target_scale = _standardization(targets)
        standard = ((targets - self._target_center) / self._target_scale).astype(np.float32)
        self._train(X, standard, targets.shape[1], sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the target of each row of X (rows, features), in the shape of the y of `fit`."""
        outputs = self._outputs_of(X) * self._target_scale + self._target_center
        return np.asarray(outputs.reshape(len(outputs), *self._target_shape))

    def _losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        losses = {"mse": functional.mse_loss, "l1": functional.l1_loss, "huber": functional.huber_loss}
        return losses[self.loss](outputs, target, reduction="none").mean(1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
