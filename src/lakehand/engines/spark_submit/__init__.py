# SPDX-License-Identifier: Apache-2.0
"""The second engine: a Spark application of its own for each operation, with the resources that were asked for."""

from lakehand.engines.spark_submit.engine import SparkSubmitEngine

__all__ = ["SparkSubmitEngine"]
