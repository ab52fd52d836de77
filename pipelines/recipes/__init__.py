"""Recipes by name. A recipe's docstring gives its command, and the time and result measured."""

from collections.abc import Callable
from dataclasses import replace

from pipelines.recipes.schedules import fast
from proser_core import titles
from proser_core.config import (
    CalibrationConfig,
    ClusterConfig,
    DataConfig,
    FinetuneConfig,
    NetworkConfig,
    PretrainConfig,
    Recipe,
)
from proser_core.config.named_finetunes import TUNED, from_the_first_epoch


def digits() -> Recipe:
    """Smoke test on scikit-learn's digits: 5 known classes, 25 points, no download.

    proser run digits

    One to six minutes on 2 CPU cores. Every method is above 90 %: this shows that everything works, and nothing
    about the method. The model is called `digits` too, so that it never stands in the way of your own.
    """
    return Recipe(
        name="digits",
        model_name="digits",
        data=DataConfig(
            name="digits",
            image_size=16,
            num_known=5,
            unknown_settings=(1, 2, 3),
            development="held-out-2",
            val_fraction=0.2,
            flip=False,
            padding=1,
        ),
        pretrain=PretrainConfig(epochs=8, batch_size=32, lr=0.05),
        finetune=FinetuneConfig(epochs=4, batch_size=32, lr=0.001),
        cluster=ClusterConfig(pretrain_workers=2),
    )


def cifar100_cpu() -> Recipe:
    """CIFAR100: 15 known classes, five openness settings, placeholders from the first epoch; for 2 CPU cores.

    proser run cifar100-cpu --data-dir DATA

    20 epochs of Muon with placeholders; the pretrained network is only a baseline. Its own point over splits and seeds
    0 to 4 (without the sweep), AUROC, macro-F1 in percent at 15 / 85 unknown classes: 82.4, 65.1 / 81.4, 33.9; CE
    control 81.3, 64.0 / 80.8, 32.9; cifar100-cpu-finetune 82.1, 64.4 / 81.0, 32.9. On three splits none of its 25
    points was shown to be better; --stop-early selected there what the whole grid does, with three finalists where it
    has two now.
    """
    return replace(cifar100_cpu_finetune(), name="cifar100-cpu", finetune=from_the_first_epoch(TUNED, fast()))


def cifar100_cpu_finetune() -> Recipe:
    """The same task: a fine-tune, with dummies only, of the pretrained network or your own (--pretrained).

    proser run cifar100-cpu-finetune --data-dir DATA

    Pretrained with Muon. Its own point over splits and seeds 0, 1, 2 (without the sweep), AUROC, macro-F1 in percent
    at 15 / 85 unknown classes: 83.5, 65.5 / 82.9, 35.5; CE control 83.0, 65.1 / 82.9, 35.5; MaxLogit 83.1, 65.1 /
    82.9, 35.5. The whole sweep of this recipe has not been run.
    """
    return replace(
        cifar100_cpu_paper(),
        name="cifar100-cpu-finetune",
        pretrain=fast(),
        finetune=TUNED,
        calibration=CalibrationConfig(dummy_weight=0.0),
    )


def cifar100_cpu_paper() -> Recipe:
    """The same task with the paper's fine-tune and its score, the gap.

    proser run cifar100-cpu-paper --data-dir DATA

    55 minutes on 2 cores with bf16. AUROC, macro-F1 in percent at 15 / 85 unknown classes: PROSER as selected 82.8,
    65.5 / 80.0, 35.3; MaxLogit 84.4, 66.7 / 81.3, 36.3.
    """
    return Recipe(
        name="cifar100-cpu-paper",
        data=DataConfig(name="cifar100"),
        pretrain=PretrainConfig(epochs=60, batch_size=64, lr=0.1, schedule="one_cycle"),
        cluster=ClusterConfig(pretrain_workers=2),
    )


def cifar100() -> Recipe:
    """The same task for one GPU: placeholders from the first epoch, 100 epochs of Muon.

    proser run cifar100 --data-dir DATA

    15 trainings, five at a time, took 4 minutes on an NVIDIA H200. Its own point over splits 0 to 4 (without the
    sweep), AUROC, macro-F1 in percent at 15 / 85 unknown classes: 84.3, 66.8 / 83.1, 34.9; CE control 83.7, 66.4 /
    82.8, 34.9; MaxLogit 83.7, 67.3 / 82.8, 35.8. The whole sweep of this recipe has not been run.
    """
    pretrain = replace(fast(), epochs=100)
    return replace(
        cifar100_cpu(),
        name="cifar100",
        pretrain=pretrain,
        finetune=from_the_first_epoch(TUNED, pretrain),
        cluster=ClusterConfig(gpus_per_worker=1.0),
    )


def cifar100_paper() -> Recipe:
    """The paper's schedule (200 epochs), fine-tune and score, the gap, for one GPU; not yet run.

    proser run cifar100-paper --data-dir DATA

    Neither time nor result has been measured.
    """
    return Recipe(
        name="cifar100-paper",
        data=DataConfig(name="cifar100"),
        network=NetworkConfig(dropout=0.2),
        pretrain=PretrainConfig(epochs=200, batch_size=128, lr=0.1, schedule="cosine"),
        cluster=ClusterConfig(gpus_per_worker=1.0),
    )


def folder() -> Recipe:
    """Your own images, one folder per class: all classes known, hyperparameters from a proxy.

    proser run folder --data-dir MY_IMAGES

    For a CPU: 32 pixels and a small network. --data.image-size 64 keeps more detail and takes four times as long.
    Batches are smaller where images are few.
    """
    return Recipe(
        name="folder",
        space="own_images",
        data=DataConfig(name="folder", num_known=0, unknown_settings=(), development="none", flip="auto"),
        pretrain=replace(fast(), epochs=30, batch_size=32),
        finetune=replace(TUNED, batch_size=32),
        calibration=CalibrationConfig(dummy_weight=0.0),
    )


def folder_from_scratch() -> Recipe:
    """Your own images, with placeholders from the first epoch: the settings of cifar100-cpu, without its sweep.

    proser run folder-from-scratch --data-dir MY_IMAGES --calibration.mirror

    For classes that no pretrained network knows, with hundreds of images each. docs/results/cifar100.md has what it
    reaches on CIFAR100, where each training takes 6 to 15 minutes of a CPU core with bf16; with 80 images per class it
    is level with `folder`.
    """
    return replace(
        folder(), name="folder-from-scratch", space="", pretrain=fast(), finetune=from_the_first_epoch(TUNED, fast())
    )


def folder_pretrained() -> Recipe:
    """Your own images on a backbone pretrained on ImageNet: frozen, or fine-tuned on a GPU if there are many images.

    proser run folder-pretrained --data-dir MY_IMAGES

    The embeddings of all images are computed once; then each training takes a second. --network.backbone
    torchvision:NAME or timm:NAME chooses another one, --network.weights-file FILE its weights where nothing can be
    downloaded. --network.features head-first then fine-tunes the whole network. The model is the network with
    placeholders or its control, whichever is better on the held-out classes (--calibration.network); fDBD decides.

    With EfficientNet-Lite0, 6 classes of 80 photos: 90.6 and 91.7 % accuracy, in one to two minutes on two CPU cores.
    On frozen features fDBD was mostly better than the maximum logit, and mixtures were worse than none
    (docs/results/own-images.md). The default backbone has not been measured.
    """
    return replace(
        folder(),
        name="folder-pretrained",
        space="",
        data=replace(folder().data, image_size=0),
        network=NetworkConfig(backbone="torchvision:efficientnet_b0"),
        pretrain=PretrainConfig(epochs=30, batch_size=32, lr=0.01, schedule="one_cycle", weight_decay=0.1),
        finetune=replace(TUNED, batch_size=32, lr=0.005, weight_decay=0.1),
        calibration=CalibrationConfig(dummy_weight=0.0, network="auto", score=titles.FDBD),
    )


def figures_mnist() -> Recipe:
    """MNIST in a 2-d embedding, for the paper's figures: digits 0 to 3 known, 4 and 5 unknown.

    proser run figures-mnist --data-dir DATA

    docs/paper-figures.md has times and figures of two epochs each, instead of three and four; the whole has not been
    run. Concurrent fine-tunes slow each other down; with --cluster.max-concurrent 1 their times compare with that of
    the pretraining.
    """
    return Recipe(
        name="figures-mnist",
        space="mixup_place",
        data=DataConfig(
            name="mnist",
            image_size=28,
            num_known=4,
            unknown_settings=(1, 2),
            development="held-out-2",
            split_index=122_571,  # the first that draws 0, 1, 2, 3 as known, and 4, 5 as unknown, in this order
            flip=False,
            padding=2,
        ),
        network=NetworkConfig(backbone="classifier32_2d"),
        pretrain=PretrainConfig(epochs=3),
        finetune=FinetuneConfig(epochs=4),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "digits": digits,
    "folder": folder,
    "folder-from-scratch": folder_from_scratch,
    "folder-pretrained": folder_pretrained,
    "cifar100-cpu": cifar100_cpu,
    "cifar100-cpu-finetune": cifar100_cpu_finetune,
    "cifar100-cpu-paper": cifar100_cpu_paper,
    "cifar100": cifar100,
    "cifar100-paper": cifar100_paper,
    "figures-mnist": figures_mnist,
}


def headline(make: Callable[[], object]) -> str:
    """The first line of the docstring of a recipe or schedule."""
    return (make.__doc__ or "").splitlines()[0]
