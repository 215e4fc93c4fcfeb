# SPDX-License-Identifier: Apache-2.0
"""Apache Iceberg: its metadata read without Spark, and the process factory that decides from it."""

from lakehand.formats.iceberg.factory import IcebergProcessFactory
from lakehand.formats.iceberg.table import IcebergFormat

__all__ = ["IcebergFormat", "IcebergProcessFactory"]
