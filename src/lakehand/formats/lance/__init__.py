# SPDX-License-Identifier: Apache-2.0
"""Lance: its manifests and fragments read without Spark, and the process factory that decides from them."""

from lakehand.formats.lance.factory import LanceProcessFactory
from lakehand.formats.lance.table import LanceFormat

__all__ = ["LanceFormat", "LanceProcessFactory"]
