# SPDX-License-Identifier: Apache-2.0
"""A small local Spark session with the jars and settings of the formats that a test needs, as the driver has them."""

import os
import sys

from pyspark.sql import SparkSession

from lakehand.engines.spark.command import format_properties
from lakehand.engines.spark.jars import FORMATS, spark_home
from lakehand.engines.spark.java import java_home
from tests.jars import local_jars


def start_session(*formats: str, **conf: str) -> SparkSession:
    """All formats when none is named."""
    wanted = formats or (*FORMATS, "jdbc-sqlite", "s3")
    java = java_home()
    os.environ.update(JAVA_HOME=str(java.home), SPARK_HOME=str(spark_home()), PYSPARK_PYTHON=sys.executable)
    settings = {
        # On the class path: `spark.jars` would copy half a gigabyte at every start.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in local_jars(wanted)),
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
    return builder.getOrCreate()
