# SPDX-License-Identifier: Apache-2.0
"""Tests of the engines: finding Java and jars, the driver, the spool, applications."""
