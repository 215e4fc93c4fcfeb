# SPDX-License-Identifier: Apache-2.0
"""Hudi's write client for a table at a location, as its procedures make it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def write_client(session: SparkSession, location: str) -> Iterator[Any]:
    """With the session's ``hoodie.*`` options."""
    jvm: Any = session.sparkContext._jvm
    nothing = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
    create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(session._jsparkSession, location, nothing, jvm.scala.Option.empty())
    try:
        yield client
    finally:
        client.close()
