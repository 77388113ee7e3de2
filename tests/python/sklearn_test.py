"""neurim.sklearn: the estimators among scikit-learn's own tools and checks."""

import pickle
import unittest
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

import neurim as nm
from neurim.sklearn import NeurimClassifier, NeurimRegressor

# Names of scikit-learn's checks that fail, each with its reason.
EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": "mini-batches of repeated rows are other batches than those of "
    "weighted rows, as in scikit-learn's MLPClassifier"
}


def small_cnn(inputs, outputs):
    return nm.nn.Sequential(
        nm.nn.Conv2d(inputs, 16, 3, padding=1),
        nm.nn.BatchNorm2d(16),
        nm.nn.ReLU(),
        nm.nn.MaxPool2d(2),
        nm.nn.Flatten(),
        nm.nn.Linear(16 * 4 * 4, outputs),
    )


class ChecksTest(unittest.TestCase):
    def checked(self, estimator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILED_CHECKS, on_fail=None)
        self.assertGreater(len(results), 50)
        for result in results:
            with self.subTest(check=result["check_name"]):
                self.assertNotEqual(result["status"], "failed", result["exception"])

    def test_classifier(self):
        self.checked(NeurimClassifier())

    def test_regressor(self):
        self.checked(NeurimRegressor())


class ClassifierTest(unittest.TestCase):
    def test_accuracy(self):
        for load, least in ((load_iris, 0.92), (load_digits, 0.96), (load_breast_cancer, 0.94)):
            with self.subTest(data=load.__name__):
                x, y = load(return_X_y=True)
                x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
                model = NeurimClassifier(epochs=30, random_state=0).fit(x, y)
                self.assertGreater(model.score(x_test, y_test), least)
                np.testing.assert_allclose(model.predict_proba(x_test).sum(axis=1), 1)
                self.assertLess(model.loss_curve_[-1], model.loss_curve_[0])

    def test_images(self):
        x, y = load_digits(return_X_y=True)
        x = x.reshape(-1, 1, 8, 8)
        x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
        model = NeurimClassifier(module=small_cnn, epochs=10, random_state=0).fit(x, y)
        self.assertGreater(model.score(x_test, y_test), 0.96)
        again = pickle.loads(pickle.dumps(model))  # with the running statistics of batch normalization
        np.testing.assert_array_equal(again.predict_proba(x_test), model.predict_proba(x_test))

    def test_names(self):
        data = load_iris()
        names = data.target_names[data.target]
        model = NeurimClassifier(epochs=20, random_state=0).fit(data.data, names)
        self.assertEqual(list(model.classes_), list(data.target_names))
        self.assertEqual(model.n_features_in_, 4)
        self.assertGreater(model.score(data.data, names), 0.9)

    def test_frames(self):
        try:
            import pandas as pd
        except ImportError:
            self.skipTest("pandas is not installed")
        x, y = load_iris(return_X_y=True)
        frame = pd.DataFrame(x, columns=list("abcd"))
        model = NeurimClassifier(epochs=5, random_state=0).fit(frame, y)
        self.assertEqual(list(model.feature_names_in_), list("abcd"))
        with self.assertRaisesRegex(ValueError, "feature names"):
            model.predict(frame.rename(columns={"a": "z"}))

    def test_weights_of_rows(self):
        x, y = load_breast_cancer(return_X_y=True)
        model = NeurimClassifier(epochs=5, random_state=0).fit(x, y, sample_weight=np.where(y == 1, 1.0, 0.0))
        self.assertEqual(set(model.predict(x)), {1})

    def test_same_seed_same_network(self):
        x, y = load_iris(return_X_y=True)
        first, second, third = (NeurimClassifier(epochs=3, random_state=seed).fit(x, y) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.predict_proba(x), second.predict_proba(x))
        self.assertFalse(np.array_equal(first.predict_proba(x), third.predict_proba(x)))


class RegressorTest(unittest.TestCase):
    def test_losses(self):
        x, y = load_diabetes(return_X_y=True)
        ridge = Ridge().fit(x, y).score(x, y)
        for loss in ("mse", "l1", "huber"):
            with self.subTest(loss=loss):
                model = NeurimRegressor(loss=loss, random_state=0).fit(x, y)
                self.assertGreater(model.score(x, y), ridge)
        with self.assertRaisesRegex(ValueError, "loss is 'l2'"):
            NeurimRegressor(loss="l2").fit(x, y)

    def test_what_cannot_train_is_said(self):
        x, y = load_iris(return_X_y=True)
        for model, words in ((NeurimClassifier(epochs=0), "epochs is 0"), (NeurimRegressor(epochs=1.5), "epochs is 1.5"), (NeurimClassifier(batch_size=0), "batch_size is 0"),
                             (NeurimRegressor(epochs=3, lr=1e30), "lower lr")):
            with self.assertRaisesRegex(ValueError, words):
                model.fit(x, y)
        model = NeurimClassifier(epochs=1, batch_size=len(x), lr=1e38).fit(x, y)  # its only loss is that of the first weights
        with self.assertRaisesRegex(ValueError, "not finite"):
            model.predict_proba(x)

    def test_targets(self):
        for load, inputs in ((load_iris, 2), (load_breast_cancer, 20), (load_digits, 56)):
            with self.subTest(data=load.__name__):
                x = load(return_X_y=True)[0]
                model = NeurimRegressor(epochs=20, random_state=0).fit(x[:, :inputs], x[:, inputs : inputs + 2])
                self.assertEqual(model.predict(x[:, :inputs]).shape, (len(x), 2))
                self.assertGreater(model.score(x[:, :inputs], x[:, inputs : inputs + 2]), 0.5)

    def test_verbose(self):
        import contextlib
        import io

        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            NeurimRegressor(epochs=2, verbose=True).fit([[1.0], [2.0]], [1.0, 2.0])
        self.assertRegex(text.getvalue(), r"epoch 1/2: loss [0-9.]+\nepoch 2/2: loss [0-9.]+\n")


class ToolsTest(unittest.TestCase):
    def test_search_and_pipeline(self):
        x, y = load_iris(return_X_y=True)
        grid = {"neurimclassifier__hidden": [(8,), (32, 32)], "neurimclassifier__lr": [1e-6, 1e-2]}
        model = make_pipeline(MinMaxScaler(), NeurimClassifier(epochs=20, random_state=0))
        search = GridSearchCV(model, grid, cv=3, n_jobs=2).fit(x, y)
        self.assertEqual(search.best_params_["neurimclassifier__lr"], 1e-2)
        self.assertGreater(search.best_score_, 0.9)
        scores = cross_val_score(NeurimRegressor(epochs=20, random_state=0), x[:, :3], x[:, 3], cv=3)
        self.assertEqual(len(scores), 3)

    def test_clone_and_pickle(self):
        x, y = load_iris(return_X_y=True)
        for model in (NeurimClassifier((16,), epochs=3), NeurimRegressor((16,), epochs=3, loss="l1")):
            self.assertEqual(clone(model).get_params(), model.get_params())
            again = pickle.loads(pickle.dumps(model.fit(x, y)))
            np.testing.assert_array_equal(again.predict(x), model.predict(x))
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).predict(x), model.predict(x))
            self.assertFalse(hasattr(clone(model), "loss_curve_"))


if __name__ == "__main__":
    unittest.main()
