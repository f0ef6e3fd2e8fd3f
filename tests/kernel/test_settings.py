"""Where a setting comes from, and how a wrong one is told of."""

from pathlib import Path
from typing import Any

import pytest

from ringfence.settings import Settings, SettingsError

ENV = {"HOME": "/nonexistent"}


def load(
    tmp_path: Path, file: str | bytes | None = None, env: dict[str, str] | None = None, **flags: object
) -> Settings:
    if file is not None:
        (tmp_path / "ringfence.toml").write_bytes(file if isinstance(file, bytes) else file.encode())
    return Settings.load(env={**ENV, "RINGFENCE_DATA": str(tmp_path), **(env or {})}, **flags)  # type: ignore[arg-type]


def told(tmp_path: Path, file: str | bytes | None = None, env: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, file, env, **flags)
    return str(caught.value)


def test_flags_come_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    file, env = "port = 1111\nhost = '::1'\npage_size = 7", {"RINGFENCE_PORT": "2222", "RINGFENCE_HOST": "0.0.0.0"}
    assert load(tmp_path).port == 8080
    assert load(tmp_path, file).port == 1111
    assert load(tmp_path, file, env).port == 2222
    found = load(tmp_path, file, env, port=3333, page_size=None)
    assert (found.port, found.host, found.page_size, found.max_file) == (3333, "0.0.0.0", 7, 10 << 20)


def test_the_file_is_found_in_the_data_folder_or_where_it_is_named(tmp_path: Path) -> None:
    elsewhere = tmp_path / "other.toml"
    elsewhere.write_text(f"port = 4444\ndata = '{tmp_path / 'there'}'")
    assert load(tmp_path, "port = 1111", {"RINGFENCE_CONFIG": str(elsewhere)}).port == 4444
    assert load(tmp_path, "port = 1111", config=elsewhere).port == 4444
    assert load(tmp_path, config=elsewhere).data == tmp_path  # the environment names it too
    assert Settings.load(env=ENV, config=elsewhere).data == tmp_path / "there"
    assert "there is no configuration file" in told(tmp_path, config=tmp_path / "nope.toml")
    assert "there is no configuration file" in told(tmp_path, env={"RINGFENCE_CONFIG": str(tmp_path / "nope.toml")})


def test_lists_are_separated_by_commas_in_the_environment(tmp_path: Path) -> None:
    found = load(tmp_path, "link_hosts = ['a', '*.b']", {"RINGFENCE_ALLOWED_HOSTS": "one, two,,three "})
    assert found.allowed_hosts == ("one", "two", "three")
    assert found.link_hosts == ("a", "*.b")


def test_what_clients_read_is_no_mistake(tmp_path: Path) -> None:
    foreign = {f"RINGFENCE_{name}": "x" for name in ("URL", "TOKEN", "ENROLMENT", "CA", "CONFIG_DIR")}
    assert load(tmp_path, env=foreign).port == 8080


@pytest.mark.parametrize("source", ["file", "env", "flag"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("port", "99999"), ("port", "http"), ("log_level", "loud"), ("stale_after", "0"), ("stale_after", "nan"),
     ("session_days", "inf"), ("token_days", "1e300"), ("max_body", "1"), ("wip_in_review", "-1")],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_key_and_its_source(tmp_path: Path, source: str, key: str, value: str) -> None:
    if source == "file":
        said, where = told(tmp_path, f"{key} = '{value}'"), f"the file {tmp_path / 'ringfence.toml'}"
    elif source == "env":
        said, where = told(tmp_path, env={f"RINGFENCE_{key.upper()}": value}), f"RINGFENCE_{key.upper()}"
    else:
        flag: dict[str, Any] = {key: value}
        said, where = told(tmp_path, **flag), f"the flag --{key.replace('_', '-')}"
    assert said.startswith(f"{key}: ")
    assert repr(value) in said
    assert f"in {where})" in said


def test_the_source_that_counts_is_the_one_that_is_named(tmp_path: Path) -> None:
    assert "the flag --port" in told(tmp_path, "port = 1", {"RINGFENCE_PORT": "2"}, port="x")
    assert "RINGFENCE_PORT" in told(tmp_path, "port = 1", {"RINGFENCE_PORT": "x"})


def test_a_wrong_key_is_named_with_its_source(tmp_path: Path) -> None:
    said = told(tmp_path, "prot = 1")
    assert "prot (in the file " in said
    assert str(tmp_path / "ringfence.toml") in said
    assert "is not a setting" in said
    (tmp_path / "ringfence.toml").unlink()
    assert "RINGFENCE_PROT names no setting" in told(tmp_path, env={"RINGFENCE_PROT": "1"})
    assert "RINGFENCE_port names no setting" in told(tmp_path, env={"RINGFENCE_port_": "1"}).replace("port_", "port")


@pytest.mark.parametrize("file", ["port 1", "port = ", "[a", b"\xff\xfe", b"port = 1\0"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, file: str | bytes) -> None:
    said = told(tmp_path, file)
    assert str(tmp_path / "ringfence.toml") in said
    assert "cannot be read" in said


def test_a_folder_where_the_file_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "ringfence.toml").mkdir()
    assert "cannot be read" in told(tmp_path)


def test_certificate_and_key_go_together_and_exist(tmp_path: Path) -> None:
    pem = tmp_path / "a.pem"
    pem.write_text("x")
    assert "go together" in told(tmp_path, tls_cert=pem)
    assert "go together" in told(tmp_path, tls_key=pem)
    assert f"tls_key: there is no file {tmp_path / 'b.pem'}" in told(tmp_path, tls_cert=pem, tls_key=tmp_path / "b.pem")
    found = load(tmp_path, tls_cert=pem, tls_key=pem)
    assert found.scheme == "https"
    assert load(tmp_path).scheme == "http"


def test_a_database_is_postgresql_or_none_and_its_password_is_not_told(tmp_path: Path) -> None:
    for url in ("mysql://root:hunter2@x/y", "hunter2", "/var/lib/hunter2.db"):
        said = told(tmp_path, env={"RINGFENCE_DATABASE": url})
        assert "postgresql:// URL" in said
        assert "hunter2" not in said
    assert "hunter2" not in told(tmp_path, "database = ['hunter2']")
    (tmp_path / "ringfence.toml").unlink()
    assert load(tmp_path, env={"RINGFENCE_DATABASE": "postgres://x/y"}).database == "postgres://x/y"
    assert load(tmp_path).database == ""


def test_silence_makes_stale_before_it_makes_offline(tmp_path: Path) -> None:
    assert "heartbeat_timeout must not be shorter" in told(tmp_path, stale_after=100)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    said = told(tmp_path, "prot = 1\nport = 'x'", {"RINGFENCE_MAX_BODY": "1"})
    assert all(key in said for key in ("prot", "port: ", "max_body: "))


def test_settings_do_not_change_once_they_are_valid(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="frozen"):
        load(tmp_path).port = 1  # type: ignore[misc]
    copied = Settings.model_validate_json(load(tmp_path, port=1).model_dump_json())
    assert copied == load(tmp_path, port=1)


def test_every_setting_says_what_it_is_for() -> None:
    assert all(field.description and field.description.endswith(".") for field in Settings.model_fields.values())
