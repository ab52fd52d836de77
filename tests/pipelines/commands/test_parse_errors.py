"""A command line that cannot be parsed: one line with what was got, what is needed and what to do."""

import shlex
from pathlib import Path

import pytest
import tyro
from pipeline_runs import Proser

from pipelines.commands.parse_errors import nearest

RUN = "`proser run digits --help-all` explains all options"
LINES = {
    "run digits --epoks 3": "no option is called '--epoks'; did you mean --pretrain.epochs or --finetune.epochs? "
    + RUN,
    "run digits --finetune.gama=1": "no option is called '--finetune.gama'; did you mean --finetune.gamma? " + RUN,
    "run digits --finetune.schedule step": "--finetune.schedule got 'step'; need one of constant, one_cycle, cosine, ",
    "run digits --pretrain.epochs ten": f"--pretrain.epochs got 'ten'; need INT. {RUN}",
    "run digits --pretrain.batch_size=ten": f"--pretrain.batch-size got 'ten'; need INT. {RUN}",
    "run digits --pretraining": f"--pretraining got no value; need STR. {RUN}",
    "run digits --dry-run yes": f"'yes' is not expected here. {RUN}",
    "reproduce cifar10 --data.name svhn": "no option is called '--data.name'. `proser reproduce cifar10 --help` ",
    "reproduce figures --data-dri x": "did you mean --data-dir? `proser reproduce figures --help` ",
    "predict": "MODEL is required. `proser predict --help` ",
    "predict m p --outptu x": "no option is called '--outptu'; did you mean --output?",
    "evaluate": "MODEL and --data are required. `proser evaluate --help` ",
    "serve m --device tpu": "--device got 'tpu'; need one of auto, cpu, cuda. `proser serve --help` ",
    "evaluate m --data ''": "--data got ''; need PATH. `proser evaluate --help` ",
    "run folder --data-dir ''": "--data-dir got ''; need PATH. `proser run folder --help-all` ",
    "inspect ''": "MY_IMAGES got ''; need a value. `proser inspect --help` ",
    "run --data-dir X digits": "the recipe comes first: `proser run digits --data-dir X`\n",
    "run --data-dir X": "comes first: `proser run RECIPE --data-dir X`. `proser run --help` lists the recipes",
    "run --data-dir folder": "comes first: `proser run RECIPE --data-dir folder`. ",
    "sweep --dry-run": "the recipe comes first: `proser sweep RECIPE --dry-run`. ",
    "inspect X --data.grup-by 1": "no option is called '--data.grup-by'; did you mean --data.group-by? `proser inspect",
    "list data outliers": "'outliers' is not expected here. `proser list --help` ",
}


@pytest.mark.parametrize("line", LINES)
def test_words_that_cannot_be_parsed_are_one_line_and_exit_code_2(line: str, proser: Proser) -> None:
    code, shown, error = proser(*shlex.split(line))
    assert (code, shown) == (2, "")
    assert error.startswith("proser: ")
    assert LINES[line] in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "run folder 'my images'",
            "'my images' is not expected here; did you mean --data-dir 'my images'? `proser run",
        ),
        ("evaluate m 'my images' --data x", "'my images' is not expected here. "),
        ("evaluate m 'my images'", "'my images' is not expected here; did you mean --data 'my images'? `proser eval"),
        ("calibrate m 'my images'", "'my images' is not expected here; did you mean --data 'my images'? `proser cali"),
    ],
)
def test_a_folder_that_is_one_word_too_many_may_be_the_images(
    line: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my images").mkdir()
    code, _, error = proser(*shlex.split(line))
    assert code == 2
    assert hint in error


def test_another_tyro_without_the_hook_shows_its_own_box(proser: Proser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tyro, "_errors")
    code, _, error = proser("list", "--kind", "data")
    assert code == 2
    assert "--kind" in error
    assert not error.startswith("proser: ")


def test_of_options_that_end_alike_the_one_whose_first_part_was_typed_is_nearest() -> None:
    options = ["--pretrain.batch-size", "--finetune.batch-size", "--data-dir"]
    assert nearest("--pretrian.batch_size", options) == ["--pretrain.batch-size"]
    assert nearest("--batchsize", options) == ["--pretrain.batch-size", "--finetune.batch-size"]
    assert nearest("--zzz", options) == []
