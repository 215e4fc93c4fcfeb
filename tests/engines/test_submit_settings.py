# SPDX-License-Identifier: Apache-2.0
"""What an application of spark-submit is given: settings, resources, and a clock that both sides read alike."""

from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.app.settings import Settings
from lakehand.domain.errors import Invalid
from lakehand.engines.spark_submit.application import end_of, machine, machine_time, machine_token
from lakehand.engines.spark_submit.settings import KEYS, SHARED, Resources, read_settings, resource_properties
from lakehand.jobs import leases
from lakehand.spi import LeaseGrant


def resources(resource: str = "", parallelism: str = "", **properties: str) -> Resources:
    settings = read_settings({key.replace("_", "-"): text for key, text in properties.items()})
    return settings.bounds.resources_for({"resource": resource, "parallelism": parallelism})


@pytest.mark.parametrize("text", ["4g:2g", "spark:4g,2g", "4096m:2048m", "SPARK:4G,2G"])
def test_resource_is_the_memory_of_driver_and_executors_in_both_spellings(text: str) -> None:
    found = resources(text)
    assert (found.driver_memory, found.executor_memory) == (4096, 2048)


def test_what_nobody_asks_for_comes_from_the_settings() -> None:
    found = resources(driver_memory="2g", executor_memory="3g", parallelism="5")
    assert found == Resources(driver_memory=2048, executor_memory=3072, parallelism=5)
    assert read_settings({"conf.spark.executor.memory": "7g"}).bounds.standard.executor_memory == 7168


def test_nobody_gets_more_than_the_bounds_or_less_than_spark_needs() -> None:
    most = {"max_driver_memory": "2g", "max_executor_memory": "4g", "max_parallelism": "8"}
    assert resources("64g:64g", "1000", **most) == Resources(driver_memory=2048, executor_memory=4096, parallelism=8)
    assert resources("1m:1k", "2", **most) == Resources(driver_memory=512, executor_memory=512, parallelism=2)


def test_parallelism_is_cores_on_standalone_and_executors_on_yarn_where_the_queue_counts() -> None:
    wanted = Resources(driver_memory=1024, executor_memory=2048, parallelism=6)
    standalone = resource_properties(wanted, master="spark://m:7077", queue="etl", handle="op-1-1-x")
    yarn = resource_properties(wanted, master="yarn", queue="etl", handle="op-1-1-x")

    assert standalone["spark.cores.max"] == yarn["spark.executor.instances"] == "6"
    assert (yarn["spark.yarn.queue"], yarn["spark.yarn.tags"]) == ("etl", "lakehand,op-1-1-x")
    assert "spark.yarn.queue" not in standalone


@pytest.mark.parametrize("text", ["much", "4g", "4g:", "-1g:4g"])
def test_a_resource_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="resource"):
        resources(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("threads", "4"), ("max-applications", "0"), ("max-driver-memory", "much"), ("wait-timeout", "x")],
)
def test_an_odd_property_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(Invalid, match=key):
        read_settings({key: value})


def test_it_is_off_until_it_is_named_and_takes_what_the_warm_driver_has(tmp_path: Path) -> None:
    spark = {"master": "spark://m:7077", "threads": "3", "driver_host": "h", "spark.x": "y"}
    off = Settings(home=tmp_path, spark=spark).plugin_configs()["engine", "spark-submit"]
    plugins = {"engines": {"spark-submit": {"properties": {"driver-host": "other"}}}}
    on = Settings.model_validate({"home": tmp_path, "spark": spark, "plugins": plugins}).plugin_configs()

    assert not off.enabled
    assert on["engine", "spark-submit"].enabled
    assert on["engine", "spark-submit"].properties == {
        "master": "spark://m:7077", "driver-host": "other", "conf.spark.x": "y"
    }  # fmt: skip
    assert set(SHARED) <= KEYS


def test_the_application_reads_a_token_as_the_engine_means_it() -> None:
    before, token, after = leases.clock(), machine_token(), leases.clock()
    moment = leases.MachineClock().moment(token)

    assert moment is not None
    assert before - 0.001 <= moment <= after
    assert end_of(LeaseGrant(heartbeat_token=token, time_to_live=timedelta(seconds=9))) == moment + 9


@pytest.mark.parametrize("token", [None, "", "other:1.0", f"{machine()}:", f"{machine()}:soon", "1.0"])
def test_a_token_that_is_not_of_this_machine_grants_nothing(token: str | None) -> None:
    assert leases.MachineClock().moment(token) is None
    assert end_of(LeaseGrant(heartbeat_token=token, time_to_live=timedelta(days=1))) < machine_time()


def test_a_token_from_the_future_grants_nothing() -> None:
    assert leases.MachineClock().moment(f"{machine()}:{machine_time() + 60:.3f}") is None
