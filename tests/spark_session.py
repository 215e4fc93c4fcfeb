# SPDX-License-Identifier: Apache-2.0
"""A small local Spark session with the jars and settings of the formats that a test needs, as the driver has them."""

import os
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehand.engines.spark.command import format_properties
from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from lakehand.engines.spark.known_jars import FORMATS
from tests.jars import local_jars

FURTHER = ("jdbc-sqlite", "jdbc-postgresql", "jdbc-mariadb", "s3")


def start_session(*formats: str, **conf: str) -> SparkSession:
    """All formats when none is named."""
    wanted = formats or (*FORMATS, *FURTHER)
    java = java_home()
    os.environ.update(JAVA_HOME=str(java.home), SPARK_HOME=str(spark_home()), PYSPARK_PYTHON=sys.executable)
    # The class path begins as the archive of classes has it: the formats, Spark's own jars, then these.
    os.environ["SPARK_DIST_CLASSPATH"] = class_path([name for name in wanted if name in FURTHER])
    settings = {
        # On the class path: `spark.jars` would copy half a gigabyte at every start.
        "spark.driver.extraClassPath": class_path([*FORMATS] if any(name in FORMATS for name in wanted) else wanted),
        **format_properties([name.partition("-")[0] for name in wanted]),
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.log.level": "ERROR",
        **conf,
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    finally:
        del os.environ["SPARK_DIST_CLASSPATH"]


def class_path(names: Sequence[str]) -> str:
    return os.pathsep.join(str(jar) for jar in local_jars(names))
