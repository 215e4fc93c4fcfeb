# SPDX-License-Identifier: Apache-2.0
"""SQL: the schema, one file per aggregate and one migration tree for three databases."""
