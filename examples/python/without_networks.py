"""A table of numbers without any network: principal components, neighbours, clusters and logistic regression."""

import sys

import numpy as np

import neurim as nm
from neurim.ml import PCA, KMeans, KNeighborsClassifier, LogisticRegression


def main() -> int:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 900)
    table = nm.data.table({f"x{i}": rng.normal(kinds * (i % 3 - 1) * 2.0) for i in range(12)})
    x = nm.stack(list(table.values()), 1)  # f64 (900, 12)
    train, test = x[:700], x[700:]

    pca = PCA(2).fit(train)
    print(f"two components have {sum(pca.explained_variance_ratio_):.2f} of the variance")
    print(f"three clusters: inertia {KMeans(3, random_state=0).fit(pca.transform(train)).inertia_:.1f}")
    scores = [model.fit(train, kinds[:700]).score(test, kinds[700:]) for model in (KNeighborsClassifier(5), LogisticRegression())]
    print(f"accuracy of neighbours {scores[0]:.3f}, of logistic regression {scores[1]:.3f}")
    return 0 if min(scores) > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
