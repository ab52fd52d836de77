"""Messages for people: no password of a URI is in them."""

import pytest

from proser_core.errors import first_line, hide_secrets

WORD = "S3CRETPW"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"http://user:{WORD}@127.0.0.1:1 does not answer", "http://127.0.0.1:1 does not answer"),
        (f"(API request to http://user:{WORD}@127.0.0.1:1/api/2.0)", "(API request to http://127.0.0.1:1/api/2.0)"),
        (f"http://user:{WORD}@{WORD}@host/path", "http://host/path"),
        (f"s3://KEY:{WORD}/{WORD}@bucket/p", "s3://bucket/p"),
        (f"https://{WORD}@host", "https://host"),
        (f"postgresql://h/db?user=u&password={WORD}", "postgresql://h/db?user=u&password=***"),
        (f"abfs://c/p?client_secret={WORD}&a=b", "abfs://c/p?client_secret=***&a=b"),
        (f"abfss://c@a/p?sv=1&sig={WORD}%2F", "abfss://c@a/p?sv=1&sig=***"),
        (f"abfss://c:{WORD}@a/p", "abfss://a/p"),
        (
            f"s3://b?secret_key={WORD} and s3://c?ACCESS_TOKEN={WORD}",
            "s3://b?secret_key=*** and s3://c?ACCESS_TOKEN=***",
        ),
    ],
)
def test_a_secret_of_a_uri_is_hidden(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
    assert WORD not in hide_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:5000/#/models/proser@champion",
        "models:/proser@champion",
        "sqlite:////tmp/a@b/mlflow.db",
        "s3://bucket/p?region=eu&allow_delayed_open=true",
        "http://host/designs?design=1&sigma=2",
        "abfss://container@account.dfs.core.windows.net/p?credential_kind=environment",
        "write to a@b.example about http://host:80",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert hide_secrets(text) == text


def test_a_secret_is_hidden_before_a_long_message_is_cut() -> None:
    error = OSError(f"https://user:{WORD * 40}@host does not answer")
    assert first_line(error) == "https://host does not answer"


def test_a_long_message_is_cut_behind_a_word() -> None:
    words = [f"word{number}" for number in range(100)]
    shown = first_line(OSError(" ".join(words)))
    assert len(shown) <= 200
    kept = shown.removesuffix(" ...").split()
    assert kept == words[: len(kept)]
    assert len(first_line(OSError("x" * 300))) == 200


@pytest.mark.parametrize(("text", "shown"), [("\n  twice\nmore", "twice"), (" ", "OSError"), ("", "OSError")])
def test_an_error_has_a_first_line(text: str, shown: str) -> None:
    assert first_line(OSError(text)) == shown


@pytest.mark.parametrize("before", ["", "(raised as a result of Query-invoked autoflush; consider using (it))\n"])
def test_of_a_databases_error_its_own_words_are_told(before: str) -> None:
    error = OSError(f"{before}(sqlite3.OperationalError) database or disk is full\n[SQL: INSERT INTO metrics]")
    assert first_line(error) == "database or disk is full"
