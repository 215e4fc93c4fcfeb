# SPDX-License-Identifier: Apache-2.0
"""The services of the end-to-end tests."""

from tests.e2e.conftest import lake, start_service

__all__ = ["lake", "start_service"]
