# SPDX-License-Identifier: Apache-2.0
"""How the driver is started."""

import sys
from pathlib import Path

import pytest

from lakehand.engines.spark.command import PROGRAM, Command, as_properties_file, driver_command, job_code
from lakehand.engines.spark.java import Java
from lakehand.engines.spark.settings import read_settings

JAVA = Java(home=Path("/java"), version=17, origin="PATH")
JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))


def command(formats: tuple[str, ...] = (), **properties: str) -> Command:
    asked = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
    home = Path("/home")
    return driver_command(
        read_settings(asked),
        home=home,
        spool=home / "spool",
        spark_home=Path("/spark"),
        java=JAVA,
        formats=formats,
        jars=JARS,
    )


def test_the_program_exists_and_is_told_its_limits() -> None:
    arguments = command(threads="3", idle_timeout="2m").arguments

    assert PROGRAM.is_file()
    assert arguments[:2] == ["/spark/bin/spark-submit", "--properties-file"]
    limits = "--idle-timeout 120 --max-age 86400 --lease-grace 5"
    assert " ".join(arguments).endswith(f"--max-rss-mb 5120 --code {job_code()} {limits}")


def test_spark_and_java_are_the_ones_that_we_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/other")
    environment = command().environment

    assert (environment["SPARK_HOME"], environment["JAVA_HOME"]) == ("/spark", "/java")
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"]


def test_the_secrets_of_the_service_stay_with_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_DATABASE", "postgresql://user:password@host/db")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    environment = command().environment

    assert "LAKEHAND_DATABASE" not in environment
    assert environment["AWS_PROFILE"] == "lake"


def test_local_masters_have_the_jars_on_the_class_path_and_listen_to_nobody_else() -> None:
    properties = command(master="local[2]").properties

    assert properties["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert properties["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.jars" not in properties


def test_clusters_are_sent_the_jars() -> None:
    properties = command(master="spark://host:7077").properties

    assert properties["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert "spark.driver.bindAddress" not in properties


def test_jars_of_a_person_are_in_one_class_loader_with_ours_on_clusters_and_when_spark_fetches_them() -> None:
    theirs = {"conf__spark__jars": "/theirs.jar", "conf__spark__jars__packages": "org:module:1"}
    for master in ("spark://host:7077", "local[2]"):
        properties = command((), master=master, **theirs).properties

        assert properties["spark.jars"] == "/jars/a.jar,/jars/b.jar,/theirs.jar"
        assert properties["spark.jars.packages"] == "org:module:1"
        assert "spark.driver.extraClassPath" not in properties


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:1,127.0.0.2:2"])
def test_a_driver_of_a_cluster_on_loopback_is_offered_to_nobody_else(master: str) -> None:
    made = command(master=master)

    assert made.properties["spark.driver.host"] == made.properties["spark.driver.bindAddress"] == "127.0.0.1"
    assert made.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "spark.authenticate" not in made.properties, "it is the cluster's decision"


@pytest.mark.parametrize("master", ["spark://host:7077", "spark://127.0.0.1:7077,host:7077", "yarn", "k8s://https://h"])
def test_a_driver_of_any_other_cluster_is_where_spark_or_the_operator_says(master: str) -> None:
    standard = command(master=master)
    said = command(master=master, driver_host="lake.internal", bind_address="10.0.0.1")

    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(standard.properties)
    assert "SPARK_LOCAL_IP" not in standard.environment
    assert said.properties["spark.driver.host"] == "lake.internal"
    assert said.properties["spark.driver.bindAddress"] == "10.0.0.1"


def test_executors_of_a_cluster_may_have_a_python_of_their_own() -> None:
    there = command(master="spark://host:7077", executor_python="/opt/python").environment
    here = command(master="local[2]", executor_python="/opt/python").environment

    assert there["PYSPARK_PYTHON"] == "/opt/python"
    assert there["PYSPARK_DRIVER_PYTHON"] == here["PYSPARK_PYTHON"] == sys.executable


def test_an_application_runs_one_work() -> None:
    home = Path("/home")
    once = driver_command(
        read_settings({}), home=home, spool=home / "spool", spark_home=Path("/spark"), java=JAVA, is_once=True
    )
    assert once.arguments[-1] == "--once"
    assert "--once" not in command().arguments


def test_hudi_brings_what_it_needs_only_when_it_is_on() -> None:
    on, off = command(formats=("hudi",)).properties, command().properties

    assert on["spark.sql.extensions"] == "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
    assert on["spark.kryo.registrator"] == "org.apache.spark.HoodieSparkKryoRegistrar"
    assert "spark.kryo.registrator" not in off


def test_own_spark_settings_win_but_lists_grow_and_promises_stay() -> None:
    asked = {
        "conf__spark__ui__enabled": "true",
        "conf__spark__sql__extensions": "com.example.Extension",
        "conf__spark__scheduler__mode": "FIFO",
    }
    properties = command(("hudi",), **asked).properties

    assert properties["spark.ui.enabled"] == "true"
    assert properties["spark.sql.extensions"].endswith("HoodieSparkSessionExtension,com.example.Extension")
    assert properties["spark.scheduler.mode"] == "FAIR"


def test_values_survive_the_properties_file() -> None:
    text = as_properties_file({"spark.b": " a\\b\n=c", "spark.a": "x:y"})

    assert text == "spark.a=x\\:y\nspark.b=\\ a\\\\b\\n\\=c\n"


def test_a_local_driver_answers_nobody_who_lacks_its_secret_whatever_was_asked_for() -> None:
    asked = {
        "conf__spark__authenticate": "false",
        "conf__spark__driver__bindAddress": "0.0.0.0",
        "conf__spark__driver__host": "lake.internal",
    }
    for master in ("local", "local[*]", "local[4]", "local[2,3]"):
        made = command((), master=master, **asked)

        assert made.properties["spark.authenticate"] == "true"
        assert made.properties["spark.driver.bindAddress"] == made.properties["spark.driver.host"] == "127.0.0.1"
        assert made.environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_the_secret_of_a_local_driver_is_in_no_file_and_on_no_command_line() -> None:
    made = command(master="local[2]")

    said = " ".join([*made.arguments, *made.properties, *made.properties.values(), *made.environment])
    assert "authenticate.secret" not in said


def test_a_cluster_keeps_the_secret_that_its_operator_gave_it() -> None:
    asked = {"conf__spark__authenticate": "true", "conf__spark__authenticate__secret": "theirs"}
    made = command((), master="spark://host:7077", **asked)

    assert made.properties["spark.authenticate.secret"] == "theirs"
    assert "SPARK_LOCAL_IP" not in made.environment
    assert "spark.authenticate" not in command(master="yarn").properties
