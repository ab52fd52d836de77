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
