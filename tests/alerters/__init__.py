# SPDX-License-Identifier: Apache-2.0
"""Tests of alerters, against real servers."""
