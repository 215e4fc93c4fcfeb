# SPDX-License-Identifier: Apache-2.0
"""The default engine: one warm PySpark driver, reached through a spool folder."""

from lakehand.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
