# SPDX-License-Identifier: Apache-2.0
"""Checks of requests that every interface shares."""
