# SPDX-License-Identifier: Apache-2.0
"""The Hudi jobs: each runs one plan of a table, or makes one and runs it."""
