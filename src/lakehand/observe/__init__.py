# SPDX-License-Identifier: Apache-2.0
"""Metrics and alerts: what happened, in numbers and in messages."""
