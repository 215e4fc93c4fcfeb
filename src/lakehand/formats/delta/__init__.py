# SPDX-License-Identifier: Apache-2.0
"""Delta Lake: its log read without Spark, and the process factory that decides from it."""

from lakehand.formats.delta.factory import DeltaProcessFactory
from lakehand.formats.delta.table import DeltaFormat

__all__ = ["DeltaFormat", "DeltaProcessFactory"]
