# SPDX-License-Identifier: Apache-2.0
"""Tests of check, maintain and discover without a service."""
