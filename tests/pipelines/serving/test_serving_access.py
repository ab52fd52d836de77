"""Who may ask `proser serve`: hosts, origins and tokens."""

from pathlib import Path

import pytest

from pipelines.serving.access import Access, read_token, token_digest
from proser_core.errors import ConfigError


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1:80", "localhost", "a.localhost:8000", "[::1]:8000", "10.1.2.3", "my.org"]
    )
    def test_addresses_localhost_and_named_hosts_are_allowed(self, host: str) -> None:
        assert refusal(Access(("my.org",)), host=host) is None

    @pytest.mark.parametrize(
        "host", ["evil.com", "127.0.0.1.evil.com:8000", "localhost.evil.com", "[::1", "@", "my.org.evil"]
    )
    def test_a_name_that_someones_dns_could_point_here_is_refused(self, host: str) -> None:
        assert refusal(Access(("my.org",)), host=host) == 403

    @pytest.mark.parametrize("named", ["My.Org", "my.org:8000"])
    def test_a_name_may_have_capitals_or_a_port(self, named: str) -> None:
        assert refusal(Access((named, "[::1")), host="MY.org") is None
        assert refusal(Access((named, "[::1")), host="@") == 403

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("http://127.0.0.1:8000", None),
            ("https://my.org", None),
            ("http://evil.com", 403),
            ("http://127.0.0.1:5000", 403),
            ("null", 403),
        ],
    )
    def test_pages_of_other_origins_may_not_call(self, origin: str, status: int | None) -> None:
        assert refusal(Access(("my.org",)), host="127.0.0.1:8000", origin=origin) == status

    def test_by_its_own_name_it_may_be_asked_but_not_by_pages_of_other_ports(self) -> None:
        access = Access((), own="box.lan")
        assert refusal(access, host="box.lan:8000") is None
        assert refusal(access, host="box.lan:8000", origin="http://box.lan:8000") is None
        assert refusal(access, host="box.lan:8000", origin="http://box.lan:5000") == 403
        assert not access.allows_page("http://box.lan:5000")

    def test_a_star_allows_any(self) -> None:
        assert refusal(Access(("*",)), host="evil.com", origin="http://evil.org") is None


class TestTokens:
    def test_a_token_comes_from_a_file_or_the_environment_and_is_shown_nowhere(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("secret\n")
        assert read_token(file, "other") == read_token(None, "secret") == token_digest("secret")
        assert read_token(None, None) is None
        assert "secret" not in repr(Access((), read_token(file, None)))

    @pytest.mark.parametrize("content", ["", " \n", "two words", "n\u00e4h", "a\nb"])
    def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(self, content: str, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(content)
        with pytest.raises(ConfigError, match="one word of ASCII") as caught:
            read_token(file, None)
        assert not content.strip() or content.strip() not in str(caught.value)
        with pytest.raises(ConfigError, match="cannot be read"):
            read_token(tmp_path / "none", None)


def refusal(access: Access, **headers: str) -> int | None:
    """Status of the refusal of a request with these headers, or None."""
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    refused = access.refusal({"type": "http", "path": "/", "headers": encoded})
    return None if refused is None else refused.status_code
