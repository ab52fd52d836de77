"""Encoder, decoder, discriminator and classifier of Neal et al. 2018."""

import numpy as np
import pytest
import torch

from proser_core.config import NetworkConfig
from proser_core.generative.convolutions import Classifier32, Decoder32, Discriminator32, Encoder32, nine_blocks, sphere
from proser_core.generative.pixels import Pixels, generated_side
from proser_core.networks.nets import make_closed_set_net


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def images(count=4, side=32):
    return torch.rand(count, 3, side, side)


def test_each_contiguous_piece_of_a_code_on_the_sphere_has_length_1():
    codes = torch.randn(3, 64, 4, 4)
    flat, on_sphere = codes.flatten(1), sphere(codes).flatten(1)
    for image in range(3):
        for piece in range(16):
            entries = slice(64 * piece, 64 * (piece + 1))
            expected = flat[image, entries] / flat[image, entries].norm()
            torch.testing.assert_close(on_sphere[image, entries], expected)


def test_a_piece_is_four_whole_channels_and_not_the_channels_of_one_place():
    codes = torch.randn(1, 64, 4, 4)
    changed = codes.clone()
    changed[0, 5] *= 3
    differs = (sphere(codes) != sphere(changed))[0].flatten(1).any(dim=1)
    assert differs.nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_a_code_does_not_depend_on_how_it_lies_in_memory():
    codes = torch.randn(2, 8, 4, 4)
    torch.testing.assert_close(sphere(codes.to(memory_format=torch.channels_last)), sphere(codes), rtol=0, atol=0)


def test_a_piece_of_zeros_stays_finite_and_so_does_its_gradient():
    codes = torch.zeros(1, 8, 2, 2, requires_grad=True)
    on_sphere = sphere(codes)
    on_sphere.sum().backward()
    assert not on_sphere.any()
    assert torch.isfinite(codes.grad).all()


def test_the_gradient_of_the_sphere_is_that_of_finite_differences():
    assert torch.autograd.gradcheck(sphere, torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("side", [8, 16, 32])
def test_shapes_at_every_side(side):
    pixels, rows = images(2, side), side // 8
    codes = Encoder32(6, width=8, dropout=0.2)(pixels)
    assert codes.shape == (2, 6, rows, rows)
    decoded = Decoder32(6, widths=(16, 8, 4))(codes)
    assert decoded.shape == pixels.shape
    assert 0 <= decoded.min() <= decoded.max() <= 1
    assert Discriminator32(side, width=8)(pixels).shape == (2,)
    assert Classifier32(5, side, width=8)(pixels).shape == (2, 5)


def test_a_decoder_of_four_widths_begins_with_two_rows():
    assert Decoder32(8, widths=(16, 16, 8, 4))(torch.randn(2, 8, 2, 2)).shape == (2, 3, 32, 32)


def test_at_full_width_the_classifier_is_classifier32_flat():
    config = NetworkConfig(backbone="classifier32_flat", dropout=0.2)
    theirs = make_closed_set_net(config, num_known=6, image_size=32, seed=1)
    ours = Classifier32(6, dropout=0.2)
    pairs = zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True)
    ours.load_state_dict({name: value for (name, _), value in pairs})
    pixels = images()
    torch.testing.assert_close(ours.eval()(pixels), theirs.eval()(pixels), rtol=0, atol=0)


def test_the_widths_of_the_decoder_are_those_of_the_authors():
    shapes = [tuple(value.shape) for name, value in Decoder32(64).named_parameters() if value.dim() == 4]
    assert shapes == [(64, 512, 1, 1), (512, 256, 4, 4), (256, 128, 4, 4), (128, 3, 4, 4)]


def test_the_discriminator_sees_the_batch():
    net = Discriminator32(width=8).eval()
    pixels = images()
    features = net.features(pixels)
    of_batch = torch.stack([torch.exp(-features[:, column].mean()) for column in range(features.shape[1])])
    both = [torch.cat([own, of_batch]) @ net.real.weight[0] + net.real.bias[0] for own in features]
    torch.testing.assert_close(net(pixels), torch.stack(both))


def test_dropout_stands_before_each_stage_and_first_on_the_image():
    with_dropout, without = nine_blocks(8, dropout=0.2), nine_blocks(8)
    kinds = [type(module).__name__ for module in with_dropout]
    assert kinds == ["Dropout2d", "ConvBlock", "ConvBlock", "ConvBlock"] * 3
    assert with_dropout.state_dict().keys() == without.state_dict().keys()


def test_pixels_undo_the_normalisation_and_take_area_means():
    pixels = Pixels(64)
    pixels.mean.copy_(torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1))
    pixels.std.copy_(torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1))
    original = images(2, 64)
    expected = original.numpy().reshape(2, 3, 32, 2, 32, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(pixels((original - pixels.mean) / pixels.std).numpy(), expected, atol=1e-6)


def test_a_side_is_a_multiple_of_8_and_at_most_32():
    assert [generated_side(size) for size in (8, 16, 28, 32, 64, 96)] == [8, 16, 32, 32, 32, 32]
