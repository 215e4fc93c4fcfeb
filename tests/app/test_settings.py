# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, which one wins, and what is refused."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.app.settings import Settings, load
from lakehand.domain.errors import Invalid, NotFound


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this machine plays a part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*Settings.model_fields, "config", "warehouse"):
        monkeypatch.delenv(f"LAKEHAND_{name.upper()}", raising=False)
    return tmp_path


def write(folder: Path, text: str, name: str = "lakehand.toml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o600)
    return folder / name


def test_the_defaults_are_safe(elsewhere: Path) -> None:
    settings = load()

    assert (settings.host, settings.port, settings.warehouses) == ("127.0.0.1", 9091, [])
    assert settings.home == elsewhere / ".lakehand"
    assert settings.database_url == f"sqlite:///{elsewhere}/.lakehand/lakehand.db"
    assert settings.heartbeat_timeout == timedelta(minutes=10)


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_flags_win_over_environment_over_file_over_defaults(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(elsewhere, 'port = 1\nhost = "file"\nlease = "3m"\n')
    monkeypatch.setenv("LAKEHAND_PORT", "2")
    monkeypatch.setenv("LAKEHAND_HOST", "environment")

    settings = load({"port": 3, "host": None})

    assert (settings.port, settings.host, settings.lease) == (3, "environment", timedelta(minutes=3))


def test_the_file_is_the_named_one_or_in_home_or_here(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(elsewhere, "port = 1")
    assert load().port == 1
    home = elsewhere / "home"
    write(home, "port = 2")
    assert load({"home": str(home)}).port == 2
    monkeypatch.setenv("LAKEHAND_CONFIG", str(write(elsewhere, "port = 3", "three.toml")))
    assert load({"home": str(home)}).port == 3
    assert load({"home": str(home)}, write(elsewhere, "port = 4", "four.toml")).port == 4
    with pytest.raises(NotFound):
        load(config=elsewhere / "missing.toml")


@pytest.mark.parametrize("name", ["LAKEHAND_WAREHOUSES", "LAKEHAND_WAREHOUSE"])
@pytest.mark.parametrize("text", ["/a,s3://b", '["/a", "s3://b"]'])
def test_warehouses_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)

    assert load().warehouses == ["/a", "s3://b"]


@pytest.mark.parametrize("text", ['warehouses = ["/a"]', 'warehouse = "/a"', 'warehouse = ["/a"]'])
def test_warehouses_come_from_the_file(elsewhere: Path, text: str) -> None:
    write(elsewhere, text)

    assert load().warehouses == ["/a"]
    assert load({"warehouses": ["/b"]}).warehouses == ["/b"]


def test_no_proxy_is_trusted_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().trusted_proxies == []

    monkeypatch.setenv("LAKEHAND_TRUSTED_PROXIES", "10.0.0.5, 10.1.2.3/16")
    assert load().trusted_proxies == ["10.0.0.5/32", "10.1.0.0/16"]

    monkeypatch.setenv("LAKEHAND_TRUSTED_PROXIES", "*")
    with pytest.raises(Invalid, match="trusted_proxies"):
        load()


def test_allowed_hosts_are_names_without_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_ALLOWED_HOSTS", "Lakehand, *.internal.,10.0.0.5")
    assert load().allowed_hosts == ["lakehand", "*.internal", "10.0.0.5"]

    monkeypatch.setenv("LAKEHAND_ALLOWED_HOSTS", "http://lakehand:9091")
    with pytest.raises(Invalid, match="allowed_hosts"):
        load()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400), (5, 5), (0.5, 0.5)]
)
def test_durations_are_seconds_or_carry_a_unit(text: Any, seconds: float) -> None:
    assert load({"lease": text}).lease == timedelta(seconds=seconds)


def test_tables_of_the_file_and_the_environment_are_merged(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(elsewhere, "[retry]\nmax-attempts = 9\nfirst_delay = '2s'\n[limits]\nrunning = 3\nqueues = {night-shift = 2}")
    monkeypatch.setenv("LAKEHAND_RETRY__FIRST_DELAY", "7s")

    settings = load()

    policy = settings.retry_policy()
    assert (policy.max_attempts, policy.first_delay) == (9, timedelta(seconds=7))
    assert (settings.limits.running, settings.limits.queues) == (3, {"night-shift": 2})


def test_spark_properties_and_plugins_meet_in_one_place(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        elsewhere,
        '[spark]\nmaster = "local[2]"\n"spark.executor.memory" = "1g"\n'
        "[plugins.process-factories.hudi]\nenabled = false\npriority = 3\nproperties = {a = 'b'}",
    )
    monkeypatch.setenv("LAKEHAND_SPARK__DRIVER_MEMORY", "3g")

    configs = load().plugin_configs()

    assert configs["engine", "spark"].properties == {
        "master": "local[2]", "conf.spark.executor.memory": "1g", "driver-memory": "3g",
    }  # fmt: skip
    hudi = configs["process-factory", "hudi"]
    assert (hudi.enabled, hudi.priority, hudi.properties) == (False, 3, {"a": "b"})


@pytest.mark.parametrize(
    "text", ["ci=sesame-sesame-01,ops=sesame-sesame-02", '{"ci": "sesame-sesame-01", "ops": "sesame-sesame-02"}']
)
def test_tokens_have_names(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LAKEHAND_TOKENS", text)

    assert load().token_secrets() == {"ci": "sesame-sesame-01", "ops": "sesame-sesame-02"}


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_TOKENS", "ci=sesame-sesame-01")
    doors = {"wire_token": "sesame-sesame-w", "callback_key": "sesame-sesame-k"}
    settings = load({"database": "postgresql://u:sesame@h/d", **{name: text * 2 for name, text in doors.items()}})

    assert "sesame" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.database_url == "postgresql://u:sesame@h/d"


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"port": 70000}, "port"),
        ({"lease": "soon"}, "lease"),
        ({"lease": 0}, "lease"),
        ({"log_level": "loud"}, "log_level"),
        ({"surprise": 1}, "surprise"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"plugins": {"odd": {}}}, "plugins"),
        ({"wire_token": ["sesame"]}, "wire_token"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_never_quoted(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(Invalid, match=name) as refused:
        load(wrong)

    assert "sesame" not in str(refused.value)


def test_the_old_name_of_a_setting_is_an_error_that_names_the_new_one(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(elsewhere, "[retry]\nmax_patience = 3\n")
    with pytest.raises(Invalid, match=r"retry: .*max_patience is now max_deferrals"):
        load(config=file)
    write(elsewhere, "[retry]\nmax_deferrals = 3\n")
    assert load(config=file).retry_policy().max_deferrals == 3
    monkeypatch.setenv("LAKEHAND_RETRY__MAX_PATIENCE", "3")
    with pytest.raises(Invalid, match=r"max_patience is now max_deferrals"):
        load(config=file)


def test_a_broken_file_is_named(elsewhere: Path) -> None:
    file = write(elsewhere, "port = ")

    with pytest.raises(Invalid, match=str(file.name)):
        load()


def test_numbers_and_flags_of_an_engine_may_stand_without_quotes(elsewhere: Path) -> None:
    write(elsewhere, '[spark]\nthreads = 4\n"spark.ui.enabled" = true\n')
    properties = load().plugin_configs()["engine", "spark"].properties
    assert properties == {"threads": "4", "conf.spark.ui.enabled": "true"}
