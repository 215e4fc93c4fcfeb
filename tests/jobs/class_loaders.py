# SPDX-License-Identifier: Apache-2.0
"""Adds a jar to a driver that runs already, for the calls of one thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from lakehand.jobs.spark import java_array, jvm


@contextmanager
def on_class_path(session: SparkSession, jar: Path) -> Iterator[None]:
    java = jvm(session).java
    thread = java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    address = java_array(session, java.net.URL, [java.io.File(str(jar)).toURI().toURL()])
    thread.setContextClassLoader(java.net.URLClassLoader(address, before))
    try:
        yield
    finally:
        java.lang.Thread.currentThread().setContextClassLoader(before)
