# SPDX-License-Identifier: Apache-2.0
"""Tests of metrics and logs."""
