"""Data sets and outlier sets whose images are unknown to a recipe, and which of them cannot be."""

from proser_core.config import DataConfig
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import DataRoot, DataSet, open_data_set, path_of
from proser_core.data.outliers.outlier_sets import OUTLIERS, OutlierSet, open_outlier_set, sources_of
from proser_core.errors import ConfigError


def open_set(name: str, data_dir: DataRoot, *, download: bool = False) -> DataSet | OutlierSet:
    """The data set or outlier set `name`. Raises as `open_data_set`."""
    if name in OUTLIERS:
        return open_outlier_set(name, data_dir)
    return open_data_set(name, data_dir, download=download)


def check_unknown(config: DataConfig, data_dir: DataRoot) -> None:
    """Raises ConfigError for unknown classes that are known, for development unknowns whose classes or images are
    known or tested on, and for a set that has no place beside one's own classes."""
    if sources_of(config.unknown) & sources_of(config.name):
        raise ConfigError(
            f"data.unknown is {config.unknown}, which shares classes or images with {config.name}, and these are "
            "known; give a data set of other classes, or leave it empty for further classes of data.name"
        )
    for other in (config.name, config.unknown, *config.outliers):
        if config.development in SOURCES and sources_of(config.development) & sources_of(other):
            raise ConfigError(
                f"data.development is {config.development}, which shares classes or images with {other}, and these are "
                "known or tested on; give a data set of other classes, or held-out-N for N further classes of data.name"
            )
    for setting, names in (
        ("unknown is", [config.unknown]),
        ("development is", [config.development]),
        ("outliers has", config.outliers),
    ):
        for name in names:
            if name in SOURCES or name in OUTLIERS:  # a mistyped one is refused where it is opened
                check_beside_own(f"data.{setting}", name, config, data_dir)


def check_beside_own(setting: str, name: str, config: DataConfig, data_dir: DataRoot) -> None:
    """Raises ConfigError for the set of a `setting`, such as 'data.unknown is', whose folder is, or would be, one of
    those that are a user's own classes."""
    root = path_of(data_dir)
    if not (config.is_own and root) or (root / "train").is_dir():
        return
    if _has_folder(open_set(name, data_dir, download=config.download)):
        raise ConfigError(
            f"{setting} {name}, whose files would be a class among yours in {root}; move your classes to train/CLASS "
            "and put its Parquet files beside train/, or name a set without files (outlier set noise, data set digits)"
        )


def _has_folder(found: DataSet | OutlierSet) -> bool:
    """Whether it takes a folder of the data directory: neither generated, nor part of a package, nor loose files."""
    if isinstance(found, OutlierSet):
        return found.place is None or found.place.count is not None
    return found.layout is None or "/" in found.layout.needs
