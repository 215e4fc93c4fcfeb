# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the app."""

from tests.app.distributions import installer

__all__ = ["installer"]
