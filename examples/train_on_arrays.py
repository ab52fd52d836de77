"""Train on arrays, classify, save, and load: handwritten digits, of which 0 to 5 are known.

python examples/train_on_arrays.py
"""

import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits

from proser_core import DataConfig, EpochProgress, OpenSetClassifier, PretrainConfig, Recipe, task_from_arrays, train

KNOWN = 6
digits = load_digits()
images = (digits.images * 255 / 16).astype(np.uint8)  # uint8[1797, 8, 8]
is_test = np.arange(len(images)) % 3 == 0
is_training = ~is_test & (digits.target < KNOWN)

task = task_from_arrays(
    images[is_training], digits.target[is_training], test_images=images[is_test], test_labels=digits.target[is_test]
)
recipe = Recipe(
    name="digits-from-arrays",
    data=DataConfig(name="digits", image_size=8, num_known=KNOWN, flip=False, padding=1),
    pretrain=PretrainConfig(epochs=10, batch_size=32, optimizer="muon", lr=0.02, schedule="one_cycle"),
)
# placeholders from the first epoch, on the schedule of a pretraining
classifier = train(task, recipe, "PROSER, from scratch", progress=EpochProgress(sys.stderr))

results = classifier.results
print(f"accuracy on known test images: {results['test/closed_set_accuracy']:.3f}")
print(f"AUROC, four unknown classes:   {results['test/unknown_4/auroc']:.3f}")

with tempfile.TemporaryDirectory() as folder:
    classifier.save(folder)
    again = OpenSetClassifier.load(folder)
found = again.predict(images[is_test][:12])
for digit, label, score in zip(digits.target[is_test], found.labels, found.unknown_scores, strict=False):
    print(f"a {digit}: {label:8s} {score:+.2f}")  # above 0: unknown
