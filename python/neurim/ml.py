"""Classical estimators with scikit-learn's names, parameters and attributes; they need numpy, not scikit-learn.

Constructors store their parameters as they are, `fit` returns the estimator, and what it learns has a name with an
underscore at the end. Inputs are arrays, tensors, frames of pandas, tables that export Arrow data (polars, pyarrow and
others) with numeric columns, and dictionaries of columns, such as `nm.data.table` gives.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import _core
from ._core import Tensor
from .arrays import _array, _readable
from .tensors import tensor
from .transforms import compile, value_and_grad

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "KMeans",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "LogisticRegression",
    "NearestNeighbors",
    "NotFittedError",
    "PCA",
]

_Self = TypeVar("_Self", bound="_Estimator")

_BLOCK = 1 << 22  # numbers in a block of distances, 16 MB
_SPARE = 8  # candidates beyond the neighbors asked for, among which exact distances choose


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before its `fit`; scikit-learn's error of this name is of the same two kinds."""


class _Estimator:
    """Base of the estimators: parameters as scikit-learn's `clone` and `GridSearchCV` expect them."""

    n_features_in_: int
    _learnt: str  # the attribute that fit sets last

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the constructor's parameters. `deep` has no effect: no parameter is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: _Self, **params: Any) -> _Self:
        """Sets parameters of the constructor. Raises ValueError for another name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter '{name}'; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = {name: value for name, value in self.get_params().items() if value is not defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            ClassifierTags,
            RegressorTags,
            Tags,
            TargetTags,
            TransformerTags,
        )

        kind = "classifier" if hasattr(self, "predict_proba") else "regressor" if hasattr(self, "predict") else None
        kind = "clusterer" if hasattr(self, "fit_predict") else kind
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=kind in ("classifier", "regressor")),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            transformer_tags=TransformerTags() if hasattr(self, "transform") else None,
        )

    def _rows_of_fit(self, X: Any) -> NDArray[Any]:
        """Returns X (rows, features) as f32 or f64 and keeps the number of features."""
        rows = _rows(X)
        self.n_features_in_ = rows.shape[1]
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, self._learnt):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _rows_of(self, X: Any) -> NDArray[Any]:
        """Returns X (rows, features) as f32 or f64.

        Raises ValueError before `fit`, and for another number of features than `fit` has seen.
        """
        self._check_fitted()
        rows = _rows(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return rows


def _rows(X: Any) -> NDArray[Any]:
    rows = _array(X)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"X has the shape {rows.shape}; give (rows, features), at least one of each")
    return np.ascontiguousarray(rows, None if rows.dtype == np.float32 else np.float64)


def _labels(y: Any, rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Returns the sorted classes in y and of each row the index of its class."""
    classes, places = np.unique(_checked_labels(y, rows), return_inverse=True)
    return classes, places.astype(np.int64)


def _checked_labels(y: Any, rows: int) -> NDArray[Any]:
    """Returns y (rows), of (rows,1) too. Raises ValueError for another shape, nulls, fractions, and texts among numbers."""
    labels = np.asarray(_readable(y, "y"))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (rows,):
        raise ValueError(f"y has the shape {labels.shape}; X has {rows} rows, so give ({rows},)")
    if labels.dtype.kind == "O":
        if any(one is None or type(one).__name__ == "NAType" or (isinstance(one, float) and one != one) for one in labels):
            raise ValueError("y holds nulls; fill or drop these rows first")
        if len({isinstance(one, str) for one in labels}) > 1:
            raise ValueError("y mixes texts with other values; give classes of one kind")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError("y holds NaN or infinity; fill or drop these rows first")
        if (broken := labels != np.floor(labels)).any():
            raise ValueError(f"y holds continuous numbers, such as {labels[broken][0]}; give classes, or use a regressor")
    return labels


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind)


def _whole(value: Any, name: str) -> int:
    """Returns a parameter that is a positive whole number. Raises ValueError for what is none."""
    if not _is_number(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; it is a whole number of 1 or more")
    return int(value)


def _matmul(a: NDArray[Any], b: NDArray[Any], transpose_b: bool = False) -> NDArray[Any]:
    """Returns a (M,K) times b (K,N), or b (N,K) with `transpose_b`, of one dtype."""
    inputs = [tensor(np.ascontiguousarray(a)), tensor(np.ascontiguousarray(b))]
    return np.asarray(_core.call("matmul", inputs, {"transpose_b": transpose_b})[0].numpy())


def _accuracy(predicted: NDArray[Any], y: Any) -> float:
    return float(np.mean(predicted == _checked_labels(y, len(predicted))))


# Neighbors


@functools.lru_cache(maxsize=8)
def _candidates(count: int, x: tuple[int, ...], points: tuple[int, ...]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Compiles the search for the `count` points (N,F) nearest to each of x (B,F); norms (N) are the points' squares.

    The first result is the squared distance less the square of x, the second the index (i64), both (B,count). The
    function is for these two shapes only, so that the cache bounds the number of plans.
    """

    def search(rows: Tensor, others: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
        products = _core.call("matmul", [rows, others], {"transpose_b": True})[0]
        values, indices = _core.call("top_k", [norms - products * 2.0], {"k": count, "largest": False})
        return values, indices

    search_of_shapes: Callable[..., tuple[Tensor, Tensor]] = compile(search)
    return search_of_shapes


def _nearest(
    x: NDArray[Any], points: NDArray[Any], k: int, spare: int = _SPARE
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns squared Euclidean distances (M,k), in f64, and indices (M,k) of the points (N,F) nearest to x (M,F).

    The nearest comes first, of equally near ones that of the lower index. A compiled search in f32 gives k + `spare`
    candidates, whose distances are computed again in f64. Where the rounding or the range of f32 could have hidden a
    nearer point, all distances of the row are computed in f64.
    """
    count, features = min(k + spare, len(points)), x.shape[1]
    center = points.mean(axis=0, dtype=np.float64)  # f32 keeps more digits around 0
    offsets = points - center
    # The search scales all by a power of two that brings the points to 1: f32 has no squares below 1e-45, above 3e38.
    exponent = -int(np.frexp(np.abs(offsets).max())[1])
    centered = np.ldexp(offsets, exponent).astype(np.float32)
    squares = np.einsum("nf,nf->n", centered, centered, dtype=np.float64)
    tensors = [tensor(centered), tensor(squares.astype(np.float32))]
    reach = np.sqrt(squares.max())
    block = max(1, min(len(x), _BLOCK // len(points), _BLOCK // (count * features)))
    distances, indices = np.empty((len(x), k)), np.empty((len(x), k), np.int64)
    queries = np.zeros((block, features), np.float32)  # of one shape also at the end, so that one plan runs
    search = _candidates(count, queries.shape, points.shape)
    for first in range(0, len(x), block):
        rows = x[first : first + block]
        shifted = np.ldexp(rows - center, exponent)
        with np.errstate(over="ignore"):  # of a query far from all points
            queries[: len(rows)] = shifted
        values, found = (t.numpy()[: len(rows)] for t in search(tensor(queries), *tensors))
        exact = _square_distances(rows[:, None, :], points[found])
        order = np.lexsort((found, exact))[:, :k]
        distances[first : first + block] = np.take_along_axis(exact, order, axis=1)
        indices[first : first + block] = np.take_along_axis(found, order, axis=1)
        if count == len(points):
            continue
        farthest = np.ldexp(distances[first : first + block, -1], 2 * exponent)
        lengths = np.einsum("nf,nf->n", shifted, shifted)
        # A sum of F products is off by at most F roundings of the product of the lengths.
        error = (features + 8) * np.finfo(np.float32).eps * (np.sqrt(lengths) + reach) ** 2
        hidden = ~(np.isfinite(values).all(axis=1) & (farthest < values[:, -1] + lengths - error))
        for row in first + np.flatnonzero(hidden):
            whole = _square_distances(x[row], points)
            indices[row] = np.argsort(whole, kind="stable")[:k]
            distances[row] = whole[indices[row]]
    return distances, indices


def _square_distances(x: NDArray[Any], points: NDArray[Any]) -> NDArray[np.float64]:
    difference = np.subtract(x, points, dtype=np.float64)
    return np.asarray(np.square(difference, out=difference).sum(axis=-1))


class _Neighbors(_Estimator):
    """Base of what keeps rows and finds the nearest ones."""

    _points: NDArray[Any]
    _learnt = "_points"

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def _keep(self, X: Any) -> None:
        _whole(self.n_neighbors, "n_neighbors")
        self._points = self._rows_of_fit(X)
        self.n_samples_fit_ = len(self._points)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | NDArray[np.int64]:
        """Returns the distances and indices (rows, n_neighbors) of the nearest training rows, the nearest first.

        Without X the queries are the training rows, and a row is not its own neighbor. Of equally near rows that of
        the lower index comes first. Raises ValueError for more neighbors than there are rows.
        """
        distances, indices = self._neighbors(X, self.n_neighbors if n_neighbors is None else n_neighbors)
        return (distances, indices) if return_distance else indices

    def _neighbors(self, X: Any, k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        self._check_fitted()
        k = _whole(k, "n_neighbors")
        queries = self._points if X is None else self._rows_of(X)
        wanted = k + (X is None)
        if not 1 <= k <= wanted <= self.n_samples_fit_:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = {self.n_samples_fit_}, "
                f"n_samples = {len(queries)}"
            )
        squares, indices = _nearest(queries, self._points, wanted)
        if X is None:
            others = indices != np.arange(len(indices))[:, None]
            others[others.all(axis=1), -1] = False  # among many equal rows, a row may not be in its own list
            squares, indices = squares[others].reshape(-1, k), indices[others].reshape(-1, k)
        return np.sqrt(squares), indices


class NearestNeighbors(_Neighbors):
    """Finds the nearest training rows by Euclidean distance, exactly, with products of blocks of rows.

    Parameters as scikit-learn's NearestNeighbors with algorithm="brute".
    """

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Keeps the rows X (rows, features). `y` is not used."""
        self._keep(X)
        return self


class _WeightedNeighbors(_Neighbors):
    """Predicts from neighbors that count alike, or by the inverse of their distance."""

    _learnt = "_y"

    def __init__(self, n_neighbors: int = 5, *, weights: str = "uniform") -> None:
        super().__init__(n_neighbors)
        self.weights = weights

    def _weighted(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns weights (rows, n_neighbors) that sum to 1, and the indices of the neighbors."""
        if self.weights not in ("uniform", "distance"):
            raise ValueError(f"weights is '{self.weights}'; it is 'uniform' or 'distance'")
        distances, indices = self._neighbors(X, self.n_neighbors)
        weights = np.ones_like(distances)
        if self.weights == "distance":
            same = distances == 0  # equal rows, where there are some, count alone
            weights = np.where(same.any(axis=1, keepdims=True), same, 1 / np.where(same, 1, distances))
        return weights / weights.sum(axis=1, keepdims=True), indices


class KNeighborsClassifier(_WeightedNeighbors):
    """Predicts the class that most of the nearest training rows have; of equally frequent ones the first.

    Parameters as scikit-learn's: `n_neighbors`, and `weights`, "uniform" or "distance".
    """

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> KNeighborsClassifier:
        """Keeps the rows X (rows, features) and their classes y (rows), numbers or texts."""
        self._keep(X)
        self.classes_, self._y = _labels(y, self.n_samples_fit_)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the class of each row of X (rows, features)."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the share of each class among the neighbors (rows, classes), in the order of `classes_`."""
        weights, indices = self._weighted(X)
        shares = np.zeros((len(indices), len(self.classes_)))
        for weight, index in zip(weights.T, indices.T, strict=True):
            shares[np.arange(len(indices)), self._y[index]] += weight
        return shares

    def score(self, X: Any, y: Any) -> float:
        """Returns the share of rows of X whose class y is predicted."""
        return _accuracy(self.predict(X), y)


class KNeighborsRegressor(_WeightedNeighbors):
    """Predicts the mean of the targets of the nearest training rows.

    Parameters as scikit-learn's: `n_neighbors`, and `weights`, "uniform" or "distance".
    """

    def fit(self, X: Any, y: Any) -> KNeighborsRegressor:
        """Keeps the rows X (rows, features) and their targets y (rows) or (rows, targets)."""
        self._keep(X)
        targets = _array(y, "y").astype(np.float64)
        if targets.ndim not in (1, 2) or len(targets) != self.n_samples_fit_:
            raise ValueError(f"y has the shape {targets.shape}; X has {self.n_samples_fit_} rows")
        self._y = targets
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the target of each row of X (rows, features), in the shape of the y of `fit`."""
        weights, indices = self._weighted(X)
        return np.asarray(np.einsum("rk,rk...->r...", weights, self._y[indices]))

    def score(self, X: Any, y: Any) -> float:
        """Returns the coefficient of determination R^2 of the prediction, averaged over targets."""
        target, predicted = _array(y, "y"), self.predict(X)
        if 1 in (target.ndim, predicted.ndim) and target.shape[:1] == (target.size,) == (predicted.size,):  # (rows) and (rows,1) are one
            target, predicted = target.reshape(-1), predicted.reshape(-1)
        if target.shape != predicted.shape:
            raise ValueError(f"y has the shape {target.shape}; the prediction of X has {predicted.shape}")
        residual = np.square(target - predicted).sum(axis=0)
        spread = np.square(target - target.mean(axis=0)).sum(axis=0)
        # Of a constant target it is 1 where the prediction is right, else 0, as in scikit-learn.
        return float(np.mean(np.where(spread > 0, 1 - residual / np.where(spread > 0, spread, 1), residual == 0)))


# Decomposition


class PCA(_Estimator):
    """Principal component analysis (Pearson, 1901; Hotelling, 1933).

    `n_components` is a count, a share of the variance between 0 and 1, or None for all. Tall tables are decomposed
    by their covariance, whose product runs in the dtype of X; others by their singular values. The component's
    largest element is positive, as in scikit-learn.
    """

    _learnt = "singular_values_"

    def __init__(self, n_components: int | float | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> PCA:
        """Learns the components of X (rows, features), f32 or f64. `y` is not used."""
        X = self._rows_of_fit(X)
        rows, features = X.shape
        most = min(rows, features)
        wanted = most if self.n_components is None else self.n_components
        if not _is_number(wanted, numbers.Integral) and not (_is_number(wanted) and 0 < wanted < 1):
            raise ValueError(f"n_components is {wanted!r}; it is a whole number, a share between 0 and 1, or None")
        if not 0 <= wanted <= most:
            raise ValueError(
                f"n_components={wanted} must be between 0 and min(n_samples, n_features)={most}; X has {rows} rows "
                f"and {features} features"
            )
        mean = X.mean(axis=0, dtype=np.float64)
        centered = (X - mean).astype(X.dtype)
        if rows >= 10 * features:
            columns = np.ascontiguousarray(centered.T)
            values, vectors = np.linalg.eigh(_matmul(columns, columns, transpose_b=True).astype(np.float64))
            singular, components = np.sqrt(values[::-1].clip(0)), vectors.T[::-1]
        else:
            _, singular, components = np.linalg.svd(centered, full_matrices=False)
        largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
        components = components * np.sign(largest)
        variance = singular**2 / max(rows - 1, 1)
        ratio = variance / variance.sum()
        if 0 < wanted < 1:
            wanted = np.searchsorted(np.cumsum(ratio), wanted, side="right") + 1
        self.n_components_ = int(wanted)
        kept = slice(self.n_components_)
        self.mean_ = mean.astype(X.dtype)
        self.components_ = components[kept].astype(X.dtype)
        self.explained_variance_ = variance[kept].astype(X.dtype)
        self.explained_variance_ratio_ = ratio[kept].astype(X.dtype)
        self.singular_values_ = singular[kept].astype(X.dtype)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Returns the coordinates (rows, components) of X (rows, features)."""
        centered = self._rows_of(X) - self.mean_
        return _matmul(centered, self.components_.astype(centered.dtype), transpose_b=True)

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """Learns the components of X and returns its coordinates (rows, components)."""
        return self.fit(X).transform(X)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Returns the rows (rows, features) that have the coordinates X (rows, components)."""
        self._check_fitted()
        coordinates = _rows(X)
        if coordinates.shape[1] != len(self.components_):
            raise ValueError(f"X has {coordinates.shape[1]} components, and this PCA has {len(self.components_)}")
        return np.asarray(_matmul(coordinates, self.components_.astype(coordinates.dtype)) + self.mean_)


# Clusters


class KMeans(_Estimator):
    """Clusters by Lloyd's algorithm from seeds of k-means++ (Arthur and Vassilvitskii, 2007).

    Parameters as scikit-learn's KMeans. `init` is "k-means++", "random" or the centers (n_clusters, features);
    `n_init` is the number of runs, of which the one of the lowest inertia stays, and "auto" 10 for "random", else 1.
    A run ends when no label changes, or when the squares of the centers' shifts sum to at most `tol` times the mean
    variance of the features. Equal draws of `random_state` give scikit-learn's seeds.
    """

    _learnt = "cluster_centers_"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> KMeans:
        """Finds the clusters of X (rows, features). `y` is not used.

        Raises ValueError for fewer rows than clusters and for centers of another shape.
        """
        rows = self._rows_of_fit(X).astype(np.float64)
        _whole(self.n_clusters, "n_clusters")
        _whole(self.max_iter, "max_iter")
        if self.n_clusters > len(rows):
            raise ValueError(f"n_samples={len(rows)} should be >= n_clusters={self.n_clusters}")
        state = self.random_state
        if not isinstance(state, np.random.RandomState):
            state = np.random.RandomState(state)
        tolerance = self.tol * rows.var(axis=0).mean()
        mean = rows.mean(axis=0)
        rows -= mean
        random = isinstance(self.init, str) and self.init == "random"
        if isinstance(self.n_init, str) and self.n_init == "auto":
            runs = 10 if random else 1
        else:
            runs = _whole(self.n_init, "n_init")
        best = None
        for _ in range(runs if isinstance(self.init, str) else 1):
            run = self._run(rows, self._seeds(rows, mean, state), tolerance)
            if best is None or run[0] < best[0]:
                best = run
        assert best is not None
        self.inertia_, self.labels_, centers, self.n_iter_ = best
        self.cluster_centers_ = centers + mean
        return self

    def _seeds(
        self, rows: NDArray[np.float64], mean: NDArray[np.float64], state: np.random.RandomState
    ) -> NDArray[np.float64]:
        if not isinstance(self.init, str):
            centers = _array(self.init, "init") - mean
            if centers.shape != (self.n_clusters, rows.shape[1]):
                raise ValueError(f"init has the shape {centers.shape}; give {(self.n_clusters, rows.shape[1])}")
            return np.asarray(centers)
        even = np.full(len(rows), 1 / len(rows))
        if self.init == "random":
            return np.asarray(rows[state.choice(len(rows), self.n_clusters, replace=False, p=even)])
        if self.init != "k-means++":
            raise ValueError(f"init is '{self.init}'; it is 'k-means++', 'random' or an array of centers")
        # As in scikit-learn, the best of a few candidates is taken: greedy k-means++.
        chosen = [int(state.choice(len(rows), p=even))]
        nearest = _square_distances(rows, rows[chosen[0]])
        for _ in range(1, self.n_clusters):
            draws = state.uniform(size=2 + int(np.log(self.n_clusters))) * nearest.sum()
            candidates = np.searchsorted(np.cumsum(nearest), draws).clip(max=len(rows) - 1)
            nearer = [np.minimum(nearest, _square_distances(rows, rows[place])) for place in candidates]
            best = int(np.argmin([distances.sum() for distances in nearer]))
            chosen.append(int(candidates[best]))
            nearest = nearer[best]
        return rows[chosen]

    def _run(
        self, rows: NDArray[np.float64], centers: NDArray[np.float64], tolerance: float
    ) -> tuple[float, NDArray[np.int32], NDArray[np.float64], int]:
        """Returns the inertia, the labels (rows), the centers and the number of iterations."""
        samples, labels = tensor(rows), np.full(len(rows), -1)
        for iteration in range(1, self.max_iter + 1):
            previous, labels = labels, _nearest(rows, centers, 1, spare=1)[1][:, 0]
            moved = self._means(rows, samples, centers, labels)
            shift = np.square(moved - centers).sum()
            centers = moved
            if np.array_equal(labels, previous):
                inertia = float(_square_distances(rows, centers[labels]).sum())
                return inertia, labels.astype(np.int32), centers, iteration
            if shift <= tolerance:
                break
        distances, indices = _nearest(rows, centers, 1, spare=1)
        return float(distances.sum()), indices[:, 0].astype(np.int32), centers, iteration

    def _means(
        self,
        rows: NDArray[np.float64],
        samples: Tensor,
        centers: NDArray[np.float64],
        labels: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Returns the mean of the rows of each cluster. An empty cluster gets the row farthest from its center."""
        counts = np.bincount(labels, minlength=self.n_clusters).astype(np.float64)
        sums = _sums(tensor(np.zeros_like(centers)), tensor(labels), samples).numpy().copy()
        empty = np.flatnonzero(counts == 0)
        distances = _square_distances(rows, centers[labels]) if len(empty) else np.zeros(1)
        if distances.max() > 0:  # else every row is where its center is
            farthest = np.argpartition(distances, -len(empty))[-len(empty) :][::-1]
            for cluster, row in zip(empty, farthest, strict=True):
                sums[labels[row]] -= rows[row]
                sums[cluster] = rows[row]
                counts[labels[row]] -= 1
                counts[cluster] = 1
        means = sums / np.maximum(counts, 1)[:, None]
        means[counts == 0] = means[counts.argmax()]
        return np.asarray(means)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Returns the index of the nearest center of each row of X (rows, features)."""
        return _nearest(self._rows_of(X), self.cluster_centers_, 1, spare=1)[1][:, 0].astype(np.int32)

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int32]:
        """Finds the clusters of X (rows, features) and returns the cluster of each row."""
        return self.fit(X).labels_

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Returns the Euclidean distances (rows, n_clusters) of X (rows, features) to the centers."""
        rows = self._rows_of(X)
        return np.sqrt(np.stack([_square_distances(rows, center) for center in self.cluster_centers_], axis=1))

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Finds the clusters of X (rows, features) and returns the distances to their centers."""
        return self.fit(X).transform(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the negative sum of the squared distances of X (rows, features) to their nearest centers."""
        return -float(_nearest(self._rows_of(X), self.cluster_centers_, 1, spare=1)[0].sum())


def _sums(zeros: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
    """Returns of each cluster the sum of its rows."""
    return _core.call("scatter", [zeros, labels, rows], {"reduction": "add"})[0]


# Linear models


class LogisticRegression(_Estimator):
    """Logistic regression of two classes, multinomial of more, with an L2 penalty on the weights.

    Minimizes the mean cross entropy plus |coef|^2 / (2 C rows) in f64 by L-BFGS (Liu and Nocedal, 1989), until the
    gradient's largest element is at most `tol`, as scikit-learn's LogisticRegression does. `C=numpy.inf` is no penalty.
    """

    classes_: NDArray[Any]
    _learnt = "n_iter_"

    def __init__(self, *, C: float = 1.0, fit_intercept: bool = True, tol: float = 1e-4, max_iter: int = 100) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> LogisticRegression:
        """Learns from X (rows, features) and classes y (rows), numbers or texts.

        Raises ValueError for fewer than two classes. Warns when `max_iter` iterations do not reach `tol`.
        """
        rows = self._rows_of_fit(X).astype(np.float64)
        if not _is_number(self.C) or not self.C > 0:
            raise ValueError(f"C is {self.C!r}; it is a number above 0")
        _whole(self.max_iter, "max_iter")
        self.classes_, places = _labels(y, len(rows))
        classes = len(self.classes_)
        if classes < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; give at least 2")
        outputs = 1 if classes == 2 else classes
        objective = self._objective(rows, places, outputs)
        start = np.zeros(outputs * (rows.shape[1] + self.fit_intercept))
        solution, iterations, converged = _lbfgs(objective, start, self.tol, self.max_iter)
        if not converged:
            warnings.warn(
                f"L-BFGS did not converge in {iterations} iterations; standardize X or increase max_iter", stacklevel=2
            )
        self.coef_ = solution[: outputs * rows.shape[1]].reshape(outputs, -1)
        self.intercept_ = solution[self.coef_.size :] if self.fit_intercept else np.zeros(outputs)
        self.n_iter_ = np.array([iterations], np.int32)
        return self

    def _objective(
        self, rows: NDArray[np.float64], places: NDArray[np.int64], outputs: int
    ) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
        """Returns the function of the weights (outputs, features) and the intercepts, in one array."""
        x = tensor(rows)
        y = tensor(places if outputs > 1 else places[:, None].astype(np.float64))
        name = "cross_entropy" if outputs > 1 else "binary_cross_entropy"
        parameters = [tensor(np.zeros((outputs, rows.shape[1])))]
        if self.fit_intercept:
            parameters.append(tensor(np.zeros(outputs)))
        strength = 0.5 / (self.C * len(rows))

        def loss() -> Tensor:
            logits = _core.call("linear", [x, *parameters])[0]
            return _core.call(name, [logits, y])[0] + (parameters[0] * parameters[0]).sum() * strength

        step = value_and_grad(loss, parameters)

        def objective(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            begin = 0
            for parameter in parameters:
                size = int(np.prod(parameter.shape))
                parameter.assign(tensor(point[begin : begin + size].reshape(parameter.shape)))
                begin += size
            value, gradients = step()
            return value.item(), np.concatenate([gradient.numpy().ravel() for gradient in gradients])

        return objective

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Returns the logits (rows, classes) of X (rows, features), or of two classes those of the second (rows)."""
        rows = self._rows_of(X).astype(np.float64)
        logits: NDArray[np.float64] = _matmul(rows, self.coef_, transpose_b=True) + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the class of each row of X (rows, features)."""
        logits = self.decision_function(X)
        return np.asarray(self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class (rows, classes), in the order of `classes_`."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any) -> float:
        """Returns the share of rows of X whose class y is predicted."""
        return _accuracy(self.predict(X), y)


def _lbfgs(
    function: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    x: NDArray[np.float64],
    tol: float,
    max_iter: int,
) -> tuple[NDArray[np.float64], int, bool]:
    """Minimizes a smooth function, which returns its value and gradient, from x on; remembers ten steps.

    Ends when the gradient's largest element is at most `tol`, or the value falls no more. Returns the minimum, the
    number of iterations, and whether it converged.
    """
    value, gradient = function(x)
    steps: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for iteration in range(max_iter):
        if np.abs(gradient).max() <= tol:
            return x, iteration, True
        direction = -_quasi_newton(gradient, steps)
        length = 1.0 if steps else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        found = _line_search(function, x, value, gradient, direction, length)
        if found is None:
            return x, iteration, True
        length, new_value, new_gradient = found
        step = length * direction
        steps = [*steps[-9:], (step, new_gradient - gradient)]
        fall = value - new_value
        x, value, gradient = x + step, new_value, new_gradient
        if fall <= 64 * np.finfo(np.float64).eps * max(abs(value), 1.0):
            return x, iteration + 1, True
    return x, max_iter, bool(np.abs(gradient).max() <= tol)


def _quasi_newton(
    gradient: NDArray[np.float64], steps: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """Returns the inverse Hessian, of pairs (step, change of gradient), times the gradient: the two-loop recursion."""
    result, shares = gradient.copy(), []
    for step, change in reversed(steps):
        share = step @ result / (step @ change)
        shares.append(share)
        result -= share * change
    if steps:
        step, change = steps[-1]
        result *= step @ change / (change @ change)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        result += (share - change @ result / (step @ change)) * step
    return np.asarray(result)


def _line_search(
    function: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    x: NDArray[np.float64],
    value: float,
    gradient: NDArray[np.float64],
    direction: NDArray[np.float64],
    length: float,
) -> tuple[float, float, NDArray[np.float64]] | None:
    """Finds a step length that meets the weak Wolfe conditions by bisection (Lewis and Overton, 2013).

    Returns it with the value and the gradient there, or None where rounding leaves no descent.
    """
    slope = gradient @ direction
    low, high = 0.0, np.inf
    for _ in range(50):
        new_value, new_gradient = function(x + length * direction)
        if not new_value <= value + 1e-4 * length * slope:
            high = length
        elif new_gradient @ direction < 0.9 * slope:
            low = length
        else:
            return length, new_value, new_gradient
        length = (low + high) / 2 if np.isfinite(high) else 2 * low
    return None
