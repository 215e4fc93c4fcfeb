# SPDX-License-Identifier: Apache-2.0
"""The PySpark code of each action; it imports nothing else of lakehand and ships to a cluster as one zip."""
