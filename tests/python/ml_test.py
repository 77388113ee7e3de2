"""neurim.ml against scikit-learn, on data sets that come with it."""

import pickle
import unittest
import warnings

import numpy as np
import sklearn.cluster
import sklearn.decomposition
import sklearn.linear_model
import sklearn.neighbors
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurim import ml
from neurim.arrays import _array

TABLES = {"iris": load_iris, "digits": load_digits, "breast_cancer": load_breast_cancer}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def standardized(load):
    x, y = load(return_X_y=True)
    return StandardScaler().fit_transform(x), y


class Case(unittest.TestCase):
    def close(self, ours, theirs):
        np.testing.assert_allclose(ours, theirs, **TOLERANCE)


class NeighborsTest(Case):
    def test_distances_and_indices(self):
        for name, load in TABLES.items():
            with self.subTest(data=name):
                x, _ = standardized(load)
                ours = ml.NearestNeighbors(6).fit(x[::2])
                theirs = sklearn.neighbors.NearestNeighbors(n_neighbors=6, algorithm="brute").fit(x[::2])
                for queries in (x[1::2], None):
                    distances, indices = ours.kneighbors(queries)
                    expected, places = theirs.kneighbors(queries)
                    self.close(distances, expected)
                    # Neighbors whose distances differ by more than rounding are the same ones.
                    gaps = np.abs(np.diff(expected, axis=1)) > 1e-6
                    apart = np.pad(gaps, ((0, 0), (1, 0)), constant_values=True) & np.pad(gaps, ((0, 0), (0, 1)))
                    self.assertGreater(apart.mean(), 0.5)
                    np.testing.assert_array_equal(indices[apart], places[apart])
                    np.testing.assert_array_equal(ours.kneighbors(queries, return_distance=False), indices)

    def test_classifier(self):
        for name, load in TABLES.items():
            with self.subTest(data=name):
                x, y = standardized(load)
                for weights in ("uniform", "distance"):
                    ours = ml.KNeighborsClassifier(7, weights=weights).fit(x[::2], y[::2])
                    theirs = sklearn.neighbors.KNeighborsClassifier(7, weights=weights, algorithm="brute")
                    theirs.fit(x[::2], y[::2])
                    self.close(ours.predict_proba(x[1::2]), theirs.predict_proba(x[1::2]))
                    np.testing.assert_array_equal(ours.predict(x[1::2]), theirs.predict(x[1::2]))
                    self.assertAlmostEqual(ours.score(x[1::2], y[1::2]), theirs.score(x[1::2], y[1::2]))

    def test_regressor(self):
        for name, load in {**TABLES, "diabetes": load_diabetes}.items():
            with self.subTest(data=name):
                x, y = standardized(load)
                targets = np.stack([y, x[:, 0]], axis=1)
                for weights, target in (("uniform", y), ("distance", targets)):
                    ours = ml.KNeighborsRegressor(7, weights=weights).fit(x[::2], target[::2])
                    # "kd_tree" finds a distance of 0 between equal rows, "brute" one of 1e-8.
                    theirs = sklearn.neighbors.KNeighborsRegressor(7, weights=weights, algorithm="kd_tree")
                    theirs.fit(x[::2], target[::2])
                    self.close(ours.predict(x[1::2]), theirs.predict(x[1::2]))
                    self.assertAlmostEqual(ours.score(x[1::2], target[1::2]), theirs.score(x[1::2], target[1::2]), 4)

    def test_ties_take_the_lower_index(self):
        x = np.array([[0.0], [2.0], [1.0], [1.0], [1.0]])
        distances, indices = ml.NearestNeighbors(3).fit(x).kneighbors([[1.0]])
        np.testing.assert_array_equal(indices, [[2, 3, 4]])
        np.testing.assert_array_equal(distances, [[0, 0, 0]])
        others = ml.NearestNeighbors(2).fit(x).kneighbors(return_distance=False)
        np.testing.assert_array_equal(others, [[2, 3], [2, 3], [3, 4], [2, 4], [2, 3]])

    def test_far_from_the_origin_f32_is_not_enough(self):
        x = np.random.default_rng(0).normal(size=(400, 3))
        x[-1] = 1e6  # one outlier moves the mean, and with it takes the digits of f32 from the others
        distances, indices = ml.NearestNeighbors(4).fit(x).kneighbors(x[:50])
        theirs = sklearn.neighbors.NearestNeighbors(n_neighbors=4, algorithm="kd_tree").fit(x)
        expected, places = theirs.kneighbors(x[:50])
        self.close(distances, expected)
        np.testing.assert_array_equal(indices, places)

    def test_scales_whose_squares_f32_cannot_hold(self):
        rows = np.random.default_rng(0).normal(size=(300, 4))
        for scale in (1e-25, 1e-19, 1e19, 1e25):
            for dtype in (np.float32, np.float64):
                x = (rows * scale).astype(dtype)
                queries = np.concatenate([x[:40], [[1e30, 0, 0, 0]]]).astype(dtype)  # the last is far from all points
                squares = np.square(np.subtract(queries[:, None], x, dtype=np.float64)).sum(axis=-1)
                places = squares.argsort(axis=1, kind="stable")[:, :4]
                distances, indices = ml.NearestNeighbors(4).fit(x).kneighbors(queries)
                np.testing.assert_array_equal(indices, places, f"{scale}")
                np.testing.assert_allclose(distances**2, np.take_along_axis(squares, places, axis=1), rtol=1e-12)

    def test_texts_as_classes(self):
        x, y = load_iris(return_X_y=True)
        names = load_iris().target_names[y]
        self.assertGreater(ml.KNeighborsClassifier().fit(x, names).score(x, names), 0.95)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "not fitted"):
            ml.NearestNeighbors().kneighbors([[1.0]])
        with self.assertRaisesRegex(ValueError, "n_neighbors = 5, n_samples_fit = 2"):
            ml.NearestNeighbors().fit([[1.0], [2.0]]).kneighbors([[1.0]])
        with self.assertRaisesRegex(ValueError, "2 features, but NearestNeighbors is expecting 1"):
            ml.NearestNeighbors(1).fit([[1.0], [2.0]]).kneighbors([[1.0, 2.0]])
        with self.assertRaisesRegex(ValueError, "weights is 'mean'"):
            ml.KNeighborsClassifier(1, weights="mean").fit([[1.0]], [0]).predict([[1.0]])


class PCATest(Case):
    def test_components(self):
        for name, load in {**TABLES, "diabetes": load_diabetes}.items():
            with self.subTest(data=name):
                x, _ = standardized(load)
                for wanted in (2, 0.9, None):
                    # Columns that are constant, as digits has, leave directions that no data determine.
                    x = x[:, x.std(axis=0) > 0]
                    ours, theirs = ml.PCA(wanted).fit(x), sklearn.decomposition.PCA(wanted, svd_solver="full").fit(x)
                    for name in (
                        "components_",
                        "explained_variance_",
                        "explained_variance_ratio_",
                        "singular_values_",
                        "mean_",
                        "n_components_",
                    ):
                        self.close(getattr(ours, name), getattr(theirs, name))
                    self.close(ours.transform(x), theirs.transform(x))
                    self.close(ours.inverse_transform(ours.transform(x)), theirs.inverse_transform(theirs.transform(x)))

    def test_wide_and_f32(self):
        x = load_digits().data[:40]
        ours, theirs = ml.PCA(5).fit(x), sklearn.decomposition.PCA(5, svd_solver="full").fit(x)
        self.close(ours.fit_transform(x), theirs.transform(x))
        x = load_digits().data.astype(np.float32)
        ours, theirs = ml.PCA(5).fit(x), sklearn.decomposition.PCA(5, svd_solver="full").fit(x)
        self.assertEqual(ours.components_.dtype, np.float32)
        np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-4)
        np.testing.assert_allclose(ours.transform(x), theirs.transform(x), atol=1e-2)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "n_components=3 must be between"):
            ml.PCA(3).fit([[1.0, 2.0], [2.0, 1.0]])


class KMeansTest(Case):
    def test_from_given_centers(self):
        for name, load in TABLES.items():
            with self.subTest(data=name):
                x, y = standardized(load)
                count = len(np.unique(y))
                init = x[np.random.default_rng(1).permutation(len(x))[:count]]
                ours = ml.KMeans(count, init=init).fit(x)
                theirs = sklearn.cluster.KMeans(count, init=init, n_init=1).fit(x)
                np.testing.assert_array_equal(ours.labels_, theirs.labels_)
                self.close(ours.cluster_centers_, theirs.cluster_centers_)
                self.close(ours.inertia_, theirs.inertia_)
                self.assertEqual(ours.n_iter_, theirs.n_iter_)
                np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
                self.close(ours.transform(x), theirs.transform(x))
                self.close(ours.score(x), theirs.score(x))

    def test_equal_draws_give_equal_seeds(self):
        for name, load in TABLES.items():
            with self.subTest(data=name):
                x, y = standardized(load)
                for init, runs in (("k-means++", "auto"), ("random", 3)):
                    count = len(np.unique(y))
                    ours = ml.KMeans(count, init=init, n_init=runs, random_state=3).fit(x)
                    theirs = sklearn.cluster.KMeans(count, init=init, n_init=runs, random_state=3).fit(x)
                    self.close(ours.inertia_, theirs.inertia_)
                    np.testing.assert_array_equal(ours.labels_, theirs.labels_)

    def test_empty_cluster_gets_the_farthest_row(self):
        x = np.array([[0.0], [1.0], [10.0], [11.0]])
        init = np.array([[0.5], [10.5], [1000.0]])
        ours = ml.KMeans(3, init=init).fit(x)
        theirs = sklearn.cluster.KMeans(3, init=init, n_init=1).fit(x)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        self.close(ours.cluster_centers_, theirs.cluster_centers_)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "n_samples=1 should be >= n_clusters=2"):
            ml.KMeans(2).fit([[1.0]])
        with self.assertRaisesRegex(ValueError, "init has the shape"):
            ml.KMeans(2, init=[[1.0]]).fit([[1.0], [2.0]])
        with self.assertRaisesRegex(ValueError, "init is 'best'"):
            ml.KMeans(2, init="best").fit([[1.0], [2.0]])


class LogisticRegressionTest(Case):
    def test_coefficients(self):
        for name, load in TABLES.items():
            with self.subTest(data=name):
                x, y = standardized(load)
                for options in ({"C": 0.5}, {"C": 0.05, "fit_intercept": False}):
                    ours = ml.LogisticRegression(tol=1e-8, max_iter=2000, **options).fit(x, y)
                    theirs = sklearn.linear_model.LogisticRegression(tol=1e-8, max_iter=2000, **options).fit(x, y)
                    self.close(ours.coef_, theirs.coef_)
                    self.close(ours.intercept_, theirs.intercept_)
                    self.close(ours.decision_function(x), theirs.decision_function(x))
                    self.close(ours.predict_proba(x), theirs.predict_proba(x))
                    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
                    self.assertEqual(ours.score(x, y), theirs.score(x, y))

    def test_texts_as_classes(self):
        x, y = standardized(load_iris)
        names = load_iris().target_names[y]
        self.assertGreater(ml.LogisticRegression().fit(x, names).score(x, names), 0.95)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "one class"):
            ml.LogisticRegression().fit([[1.0], [2.0]], [0, 0])
        x, y = standardized(load_digits)
        with self.assertWarnsRegex(UserWarning, "did not converge in 2 iterations"):
            ml.LogisticRegression(max_iter=2).fit(x, y)


class MistakesTest(Case):
    def test_targets_of_another_shape(self):
        x, y = standardized(load_breast_cancer)
        for model in (ml.LogisticRegression(), ml.KNeighborsClassifier()):
            model.fit(x, y[:, None])
            self.assertEqual(model.score(x, y[:, None]), model.score(x, y))
            for wrong in (1, y[:1], y[None], np.stack([y, y], 1), y[:-1]):
                with self.assertRaisesRegex(ValueError, "y has the shape"):
                    model.score(x, wrong)
        x, y = load_diabetes(return_X_y=True)
        for one, other in ((y, y[:, None]), (y[:, None], y)):
            self.assertEqual(ml.KNeighborsRegressor().fit(x, one).score(x, other), ml.KNeighborsRegressor().fit(x, y).score(x, y))
        for wrong in (1.0, y[:1], y[None], np.stack([y, y], 1)):
            with self.assertRaisesRegex(ValueError, "y has the shape"):
                ml.KNeighborsRegressor().fit(x, y).score(x, wrong)
        with self.assertRaisesRegex(ValueError, "y has the shape"):
            ml.KNeighborsRegressor().fit(x, 1.0)

    def test_labels_that_are_no_classes(self):
        x = [[1.0], [2.0], [3.0]]
        for model in (ml.LogisticRegression(), ml.KNeighborsClassifier(1)):
            for y, words in (([0, 1, np.nan], "NaN"), ([0, 1, None], "nulls"), (["a", "b", None], "nulls"), ([0.5, 1, 2], "continuous numbers, such as 0.5"),
                             (np.array(["a", 1, 2], object), "mixes texts")):
                with self.assertRaisesRegex(ValueError, words):
                    model.fit(x, y)
            self.assertEqual(model.fit(x, [0.0, 1.0, 1.0]).classes_.tolist(), [0, 1])

    def test_parameters_out_of_range(self):
        x, y = load_iris(return_X_y=True)
        for model in (
            *(ml.LogisticRegression(C=C) for C in (0, -1.0, np.nan, "1")), *(ml.LogisticRegression(max_iter=n) for n in (0, 1.5)),
            *(ml.KMeans(n_init=n) for n in (0, -1, 1.5, "foo", None)), *(ml.KMeans(n) for n in (0, -2, 2.5)), ml.KMeans(max_iter=0),
            *(kind(n) for kind in (ml.NearestNeighbors, ml.KNeighborsClassifier, ml.KNeighborsRegressor) for n in (0, -1, 2.5, "5", None)),
            *(ml.PCA(n) for n in (1.0, 2.5, 0.0, -0.5, "mle", -1)),
        ):  # fmt: skip
            with self.subTest(str(model)), self.assertRaises(ValueError) as raised:
                model.fit(x, y)
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(ValueError, "n_neighbors is 1.5"):
            ml.NearestNeighbors().fit(x).kneighbors(n_neighbors=1.5)
        runs = [ml.KMeans(3, init="random", n_init=n, max_iter=2, random_state=0).fit(x).inertia_ for n in (1, 5, np.int64(5))]
        self.assertEqual(runs[1], runs[2])
        self.assertLess(runs[1], runs[0])
        self.assertEqual(ml.PCA(np.int64(2)).fit(x).n_components_, 2)

    def test_nothing_works_before_fit(self):
        x = [[1.0, 2.0]]
        for model in (ml.PCA(), ml.KMeans(), ml.LogisticRegression(), ml.NearestNeighbors(), ml.KNeighborsClassifier(), ml.KNeighborsRegressor()):
            for name in ("transform", "inverse_transform", "predict", "predict_proba", "decision_function", "kneighbors"):
                if hasattr(model, name):
                    for kind in (ValueError, AttributeError, ml.NotFittedError):
                        with self.assertRaisesRegex(kind, "not fitted yet"):
                            getattr(model, name)(x)
        with self.assertRaisesRegex(ml.NotFittedError, "not fitted"):
            ml.NearestNeighbors().kneighbors()
        with self.assertRaisesRegex(ValueError, "X has 3 components"):
            ml.PCA(1).fit([[1.0, 2.0], [2.0, 1.0]]).inverse_transform([[1.0, 2.0, 3.0]])


class HabitsTest(Case):
    def test_in_scikit_learn(self):
        x, y = load_digits(return_X_y=True)
        x, y = x[:400], y[:400]
        search = GridSearchCV(ml.KNeighborsClassifier(), {"n_neighbors": [1, 5]}, cv=3).fit(x, y)
        theirs = GridSearchCV(sklearn.neighbors.KNeighborsClassifier(), {"n_neighbors": [1, 5]}, cv=3).fit(x, y)
        self.close(search.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
        model = make_pipeline(StandardScaler(), ml.PCA(20), ml.LogisticRegression()).fit(x, y)
        self.assertGreater(model.score(x, y), 0.95)

    def test_parameters(self):
        model = ml.KMeans(3, tol=0.5)
        self.assertEqual(repr(model), "KMeans(n_clusters=3, tol=0.5)")
        self.assertEqual(clone(model).get_params(), model.get_params())
        self.assertEqual(model.set_params(tol=0.25).tol, 0.25)
        with self.assertRaisesRegex(ValueError, "no parameter 'clusters'"):
            model.set_params(clusters=2)

    def test_pickles(self):
        x, y = load_iris(return_X_y=True)
        for model in (
            ml.KNeighborsClassifier(),
            ml.KNeighborsRegressor(),
            ml.LogisticRegression(max_iter=1000),
            ml.KMeans(3, random_state=0),
        ):
            again = pickle.loads(pickle.dumps(model.fit(x, y)))
            np.testing.assert_array_equal(again.predict(x), model.predict(x))


class TablesTest(unittest.TestCase):
    def setUp(self):
        self.values = np.random.default_rng(0).normal(size=(5, 3))

    def refused(self, kind, message, table):
        with self.assertRaisesRegex(kind, message) as caught:
            _array(table)
        self.assertNotIn("\n", str(caught.exception))

    def test_arrays(self):
        self.assertIs(_array(self.values), self.values)
        self.refused(TypeError, "X holds texts", [["a"]])
        self.refused(ValueError, "column 1 of X holds nulls", np.array([[1, None]], object))
        self.refused(ValueError, "column 1 of X holds nulls, NaN or infinity", np.array([[1, np.nan]]))
        self.refused(TypeError, "X holds datetime64", np.array(["2020-01-01"], "M8[D]"))

    def test_pandas(self):
        try:
            import pandas as pd
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = pd.DataFrame(self.values, columns=list("abc"))
        self.assertTrue(np.shares_memory(_array(frame), frame.to_numpy()))
        np.testing.assert_array_equal(_array(frame), self.values)
        mixed = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": pd.array([1, 2], dtype="Int64")})
        np.testing.assert_array_equal(_array(mixed), [[1, 1, 1], [2, 0, 2]])
        self.refused(TypeError, "column 't' of X holds texts", pd.DataFrame({"a": [1], "t": ["x"]}))
        self.refused(ValueError, "column 'n' of X holds nulls", pd.DataFrame({"a": [1, 2], "n": [1, np.nan]}))
        nullable = pd.DataFrame({"a": [1, 2], "n": pd.array([1, None], dtype="Int64")})
        self.refused(ValueError, "column 'n' of X holds nulls", nullable)

    def test_polars(self):
        try:
            import polars as pl
        except ImportError:
            self.skipTest("polars is not installed")
        series = pl.Series("a", self.values[:, 0].copy())
        self.assertTrue(np.shares_memory(_array(series), series.to_numpy()))
        self.assertTrue(np.shares_memory(_array(pl.DataFrame([series])), series.to_numpy()))
        np.testing.assert_array_equal(_array(pl.DataFrame({"a": [1, 2], "b": [0.5, 2]})), [[1, 0.5], [2, 2]])
        self.refused(TypeError, "column 't' of X holds texts", pl.DataFrame({"a": [1], "t": ["x"]}))
        self.refused(ValueError, "column 'n' of X holds nulls", pl.DataFrame({"a": [1, 2], "n": [1, None]}))

    def test_pyarrow(self):
        try:
            import pyarrow as pa
        except ImportError:
            self.skipTest("pyarrow is not installed")
        column = pa.array(self.values[:, 0].copy())
        for table in (column, pa.table({"a": column}), pa.table({"a": column})["a"], pa.record_batch({"a": column})):
            self.assertTrue(np.shares_memory(_array(table), column.to_numpy()))
        np.testing.assert_array_equal(_array(pa.table({"a": [1, 2], "b": [0.5, 2]})), [[1, 0.5], [2, 2]])
        self.refused(TypeError, "column 't' of X holds texts", pa.table({"a": [1], "t": ["x"]}))
        self.refused(ValueError, "column 'n' of X holds nulls", pa.table({"a": [1, 2], "n": [None, 1]}))

        class Stream:
            def __arrow_c_stream__(self, schema=None):
                return pa.table({"a": [1, 2]}).__arrow_c_stream__(schema)

        np.testing.assert_array_equal(_array(Stream()), [[1], [2]])


if __name__ == "__main__":
    warnings.simplefilter("error", RuntimeWarning)
    unittest.main()
