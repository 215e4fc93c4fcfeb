# SPDX-License-Identifier: Apache-2.0
"""Apache Paimon: its snapshots and manifests read without Spark, and the process factory that decides from them."""

from lakehand.formats.paimon.factory import PaimonProcessFactory
from lakehand.formats.paimon.table import PaimonFormat

__all__ = ["PaimonFormat", "PaimonProcessFactory"]
