# SPDX-License-Identifier: Apache-2.0
"""Properties of the spark engine."""

from datetime import timedelta

import pytest

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.settings import read_settings


def test_nothing_needs_to_be_set() -> None:
    settings = read_settings({})

    assert settings.is_local
    assert settings.driver_memory == "2g"
    assert settings.max_rss_mb == 5120
    assert settings.idle_timeout == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("master", "threads"), [("local[3]", 5), ("local[2,4]", 4), ("spark://h:7077", 8), ("yarn", 8), ("local", 3)]
)
def test_there_are_a_few_more_threads_than_cores(master: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert read_settings({"master": master}).threads == threads


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("10m", 600), ("2h", 7200), ("1 d", 86400), ("0", 0)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert read_settings({"idle-timeout": text}).idle_timeout == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("idle-timeout", "soon"),
        ("threads", "0"),
        ("threads", "-1"),
        ("threads", "two"),
        ("driver-memory", "much"),
        ("max-rss-mb", "1g"),
        ("drivermemory", "2g"),
        ("conf.hive.x", "1"),
    ],
)
def test_an_odd_property_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(Invalid, match=key.removeprefix("conf.")):
        read_settings({key: value})


def test_spark_settings_come_with_a_prefix() -> None:
    assert read_settings({"conf.spark.x": "y"}).conf == {"spark.x": "y"}


@pytest.mark.parametrize(
    "url",
    [
        "http://history:18080/history/app",  # where would the id go
        "history:18080/history/{application}",
        "javascript:alert('{application}')",
        "https://ann:hush@history/{application}",
        "https://history/{application}?access_token=hush",
    ],
)
def test_the_address_of_a_history_server_is_one_that_a_page_may_link_to(url: str) -> None:
    with pytest.raises(Invalid, match="history-url"):
        read_settings({"history-url": url})
    assert read_settings({"history-url": "https://history/{application}"}).history_url
