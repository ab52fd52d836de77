"""Codes that are modulated by a class, and the decoder behind them."""

import torch

from proser_core.generative.c2ae_network import ClassConditionedDecoder, Film, label_vectors

CODES = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))


def disturbed(module: torch.nn.Module) -> torch.nn.Module:
    """As after some training."""
    torch.manual_seed(1)
    for weight in module.parameters():
        torch.nn.init.normal_(weight)
    return module.eval()


def test_a_label_is_1_at_its_class_and_minus_1_elsewhere():
    assert label_vectors(torch.tensor([2, 0]), 3).tolist() == [[-1, -1, 1], [1, -1, -1]]


def test_before_training_codes_stay_as_they_are():
    film = Film(5, (3, 2, 2))
    assert torch.equal(film(CODES, label_vectors(torch.tensor([0, 1, 4, 3]), 5)), CODES)


def test_every_entry_has_a_factor_and_a_term_that_are_linear_in_the_label():
    film = disturbed(Film(5, (3, 2, 2)))
    labels = label_vectors(torch.tensor([0, 1, 4, 3]), 5)
    found = film(CODES, labels)
    for image, code in enumerate(CODES):
        for entry, value in enumerate(code.flatten()):
            factor, term = (
                layer.bias[entry] + sum(layer.weight[entry, k] * labels[image, k] for k in range(5))
                for layer in (film.gamma, film.beta)
            )
            torch.testing.assert_close(found[image].flatten()[entry], factor * value + term)


def test_the_decoder_doubles_a_code_once_for_every_width_and_stays_in_the_unit_range():
    decoder = disturbed(ClassConditionedDecoder(5, (3, 2, 2), (8, 8, 4, 4)))
    images = decoder(CODES, torch.tensor([0, 1, 4, 3]))
    assert images.shape == (4, 3, 32, 32)
    assert 0 <= images.min() < images.max() <= 1


def test_another_class_gives_another_image_of_the_same_code():
    decoder = disturbed(ClassConditionedDecoder(5, (3, 2, 2), (8, 4)))
    first, second = (decoder(CODES, torch.full((4,), known_class)) for known_class in (0, 1))
    assert not torch.equal(first, second)
