"""The registered model as MLflow loads it (models-from-code: this file is the model, nothing is pickled).

In: a table with a column `image`, or with a column `path` of files below the folder PROSER_IMAGE_ROOT. An image is an
encoded file, as bytes or as text in base64, or its uint8 pixels [H, W, 3] or grey [H, W]; images as pixels have one
size. Out: one row per image with `label`, `unknown`, `unknown_score` and a probability for each class.
"""

import base64
import binascii
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from proser_core.data.decoding import decode_square, read_content
from proser_core.errors import DataError, ProserError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

IMAGE_ROOT = "PROSER_IMAGE_ROOT"


class OpenSetModel(PythonModel):
    """`OpenSetClassifier` behind MLflow's interface."""

    def load_context(self, context: PythonModelContext) -> None:
        self._classifier = OpenSetClassifier.load(context.artifacts["classifier"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        try:
            images = self._images(model_input)
            return pd.DataFrame(self._classifier.predict(images).columns(self._classifier.class_names))
        except ProserError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error

    def _images(self, table: pd.DataFrame) -> np.ndarray:
        if table.empty:  # MLflow drops columns that the signature does not have
            raise DataError("got a table without an image; need a column `image` (bytes, base64 or pixels) or `path`")
        if "image" not in table:
            encoded = [_read(str(path), row) for row, path in enumerate(table["path"])]
        elif isinstance(table["image"].iloc[0], bytes | str):
            encoded = [_decoded(value, row) for row, value in enumerate(table["image"])]
        else:
            return _pixels(list(table["image"]))
        size = self._classifier.image_size
        return np.stack([decode_square(content, size, f"row {row}") for row, content in enumerate(encoded)])


def _pixels(rows: list[Any]) -> np.ndarray:
    """Whole numbers from JSON as uint8; anything else is for the classifier to refuse."""
    try:
        images = np.asarray(rows)
    except ValueError as error:  # of different sizes
        raise DataError(f"`image` holds no pixels of one size ({error}); send encoded files instead") from error
    if np.issubdtype(images.dtype, np.integer) and images.size and images.min() >= 0 and images.max() <= 255:
        return images.astype(np.uint8)
    return images


def _decoded(value: Any, row: int) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise DataError(
            f"row {row}: `image` is neither bytes nor base64 ({error}); encode the file's content"
        ) from error


def _read(path: str, row: int) -> bytes | None:
    """A file below the image root: whoever can send requests must not learn which other files there are, nor where."""
    root = os.environ.get(IMAGE_ROOT)
    if not root:
        raise DataError(
            f"a column `path` needs {IMAGE_ROOT}, which is not set; set it to the folder of the images, or "
            "send a column `image`"
        )
    try:
        place = Path(root, path).resolve()
        if place.is_relative_to(Path(root).resolve()):
            return read_content(place)
    except DataError as error:
        raise DataError(f"row {row}: {str(error).replace(str(place), path)}") from error
    except (OSError, RuntimeError, ValueError) as error:  # a link in a circle, a null character
        raise DataError(
            f"row {row}: `path` is that of no file; give one in the folder that {IMAGE_ROOT} names"
        ) from error
    raise DataError(f"row {row}: {path} is not below the folder that {IMAGE_ROOT} names; give a path in it")


set_model(OpenSetModel())
