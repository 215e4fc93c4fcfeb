# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi: its timeline read without Spark, and the process factory that decides from it."""

from lakehand.formats.hudi.factory import HudiProcessFactory
from lakehand.formats.hudi.table import HudiFormat

__all__ = ["HudiFormat", "HudiProcessFactory"]
