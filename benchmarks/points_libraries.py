"""What scikit-learn's k-means and linear classifiers cost, for `points.py`.

It runs in an environment of scikit-learn, which need not have this project. Reads the name of a file of numpy arrays:
points, and their labels where they have any; prints one JSON object of the cost on each population.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any

import numpy as np


def main() -> None:
    """The least cost of each population."""
    warnings.simplefilter("ignore")
    arrays, costs = np.load(sys.argv[1]), dict[str, float]()
    for name in arrays.files:
        population, _, part = name.rpartition("/")
        if part == "labels":
            costs[population] = fewest_mistakes(arrays[f"{population}/points"], arrays[name])
        elif part.isdigit():
            costs[population] = least_cost(arrays[name], int(part))
    print(json.dumps(costs))


def least_cost(points: Any, k: int) -> float:
    """Mean squared distance to the nearest centre: the best of ten starts."""
    clusters: Any = importlib.import_module("sklearn.cluster")
    return float(clusters.KMeans(k, n_init=10, random_state=0).fit(points).inertia_ / len(points))


def fewest_mistakes(points: Any, labels: Any) -> float:
    """Share of mislabelled points: the best of a perceptron, logistic regressions and a support vector machine."""
    linear: Any = importlib.import_module("sklearn.linear_model")
    margins: Any = importlib.import_module("sklearn.svm")
    models = (
        linear.Perceptron(fit_intercept=False, random_state=0),
        linear.LogisticRegression(fit_intercept=False),
        linear.LogisticRegression(fit_intercept=False, C=100),
        margins.LinearSVC(fit_intercept=False, random_state=0),
    )
    return min(float((model.fit(points, labels).predict(points) != labels).mean()) for model in models)


if __name__ == "__main__":
    main()
