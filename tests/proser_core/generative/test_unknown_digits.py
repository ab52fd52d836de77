"""OSRCI and G-OpenMax on five digits of 16 pixels, by shortened quick schedules: what they find on development digits.

The floors are 0.02 below what was measured once, and stand for no published number.
"""

import numpy as np
import pytest
from own_trainings import CPU, digits, train_on_digits

from proser_core.generative.autoencoding_gan import AUTOENCODING_GAN
from proser_core.generative.conditional_gan import CONDITIONAL_GAN
from proser_core.generative.g_openmax import G_OPENMAX
from proser_core.generative.g_openmax_interpolation import G_OPENMAX_INTERPOLATION
from proser_core.generative.one_vs_rest import ONE_VS_REST
from proser_core.generative.osrci import OSRCI
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import FinishedScore, ZeroLogitGap

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task():
    return digits(5, 16)


@pytest.fixture(scope="module")
def classifier(task):
    return {ONE_VS_REST.name: train_on_digits(ONE_VS_REST, task=task, epochs=6).net}


@pytest.fixture(scope="module")
def parts(task, classifier):
    return classifier | {AUTOENCODING_GAN.name: train_on_digits(AUTOENCODING_GAN, task=task, epochs=4).net}


def auroc(net, task, score):
    known, unknown = (
        score(compute_logits(net, part.images, (task.mean, task.std), CPU)) for part in (task.val, task.development)
    )
    return float(np.mean(known[:, None] < unknown))


def test_most_searches_of_osrci_end_open_and_unknown_digits_are_found(task, parts):
    done = train_on_digits(OSRCI, parts, task=task, generated=256)
    assert done.trained.facts["crossing_rate"] > 0.5
    assert auroc(done.net, task, ZeroLogitGap()) > 0.95


def test_interpolations_are_unsure_and_unknown_digits_are_found(task, parts):
    done = train_on_digits(G_OPENMAX_INTERPOLATION, parts, task=task, generated=128)
    assert done.trained.facts["largest_probability_kept"] <= 0.9
    assert auroc(done.net, task, FinishedScore()) > 0.86


def test_g_openmax_finds_unknown_digits(task, classifier):
    gan = train_on_digits(CONDITIONAL_GAN, task=task, epochs=5)
    done = train_on_digits(G_OPENMAX, classifier | {CONDITIONAL_GAN.name: gan.net}, task=task, epochs=6)
    assert done.trained.facts["kept_share_of_mixtures"] > 0.05
    assert auroc(done.net, task, FinishedScore()) > 0.9
