"""The recipes by name. Each docstring gives the command, the time it took and what it gave."""

from collections.abc import Callable

from proser_core.config import (
    ClusterConfig,
    DataConfig,
    FinetuneConfig,
    NetworkConfig,
    PretrainConfig,
    Recipe,
)


def digits() -> Recipe:
    """Smoke test on scikit-learn's embedded digits: 5 known classes, 25 points, no download.

    proser run digits

    About a minute on 2 CPU cores. Every method is above 90 %: it shows that everything works, and
    nothing about the method.
    """
    return Recipe(
        name="digits",
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
    """CIFAR100 with 15 known classes and five openness settings, short schedule, for 2 CPU cores.

    proser run cifar100-cpu --data-dir DATA

    55 minutes on 2 cores with bf16. At 15 / 85 unknown classes (AUC, macro-F1 in percent): PROSER as
    selected 82.8, 65.5 / 80.0, 35.3; maximum logit of the pretrained net 84.4, 66.7 / 81.3, 36.3.
    """
    return Recipe(
        name="cifar100-cpu",
        data=DataConfig(name="cifar100"),
        pretrain=PretrainConfig(epochs=60, batch_size=64, lr=0.1, schedule="one_cycle"),
        cluster=ClusterConfig(pretrain_workers=2),
    )


def cifar100() -> Recipe:
    """The same task with the long schedule (200 epochs), for one GPU; not yet run.

    proser run cifar100 --data-dir DATA

    Neither time nor result has been measured.
    """
    return Recipe(
        name="cifar100",
        data=DataConfig(name="cifar100"),
        network=NetworkConfig(dropout=0.2),
        pretrain=PretrainConfig(epochs=200, batch_size=128, lr=0.1, schedule="cosine"),
        cluster=ClusterConfig(gpus_per_worker=1.0),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "digits": digits,
    "cifar100-cpu": cifar100_cpu,
    "cifar100": cifar100,
}
