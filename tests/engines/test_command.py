# SPDX-License-Identifier: Apache-2.0
"""How the driver is started."""

from pathlib import Path

import pytest

from lakehand.engines.spark.command import PROGRAM, Command, as_properties_file, driver_command
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
    assert " ".join(arguments).endswith("--max-rss-mb 5120 --idle-timeout 120 --max-age 86400 --lease-grace 5")


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
