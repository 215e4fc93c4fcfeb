# SPDX-License-Identifier: Apache-2.0
"""Tests of bearer tokens, against a real issuer."""
