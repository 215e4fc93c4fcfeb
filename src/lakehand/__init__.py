# SPDX-License-Identifier: Apache-2.0
"""Lakehand keeps lakehouse tables healthy while other people's jobs write to them."""

__version__ = "0.1.0"
