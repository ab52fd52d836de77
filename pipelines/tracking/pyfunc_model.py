"""The registered model as MLflow loads it (models-from-code: this file is the model, nothing is pickled).

In: uint8 images [N, H, W, 3] of the size that the model was trained with. Out: one row an image
with `label`, `unknown`, `unknown_score` and a probability for each class.
"""

from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from proser_core.recognition.open_set_classifier import UNKNOWN, OpenSetClassifier


class OpenSetModel(PythonModel):
    """`OpenSetClassifier` behind MLflow's interface."""

    def load_context(self, context: PythonModelContext) -> None:
        self._classifier = OpenSetClassifier.load(context.artifacts["classifier"])

    def predict(
        self, context: PythonModelContext, model_input: np.ndarray, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        predictions = self._classifier.predict(np.asarray(model_input))
        names = [*self._classifier.class_names, UNKNOWN]
        frame = pd.DataFrame(
            {
                "label": predictions.labels,
                "unknown": predictions.indices == len(self._classifier.class_names),
                "unknown_score": predictions.unknown_scores.astype(np.float64),
            }
        )
        probabilities = pd.DataFrame(predictions.probabilities, columns=[f"p_{name}" for name in names])
        return pd.concat([frame, probabilities], axis=1)


set_model(OpenSetModel())
