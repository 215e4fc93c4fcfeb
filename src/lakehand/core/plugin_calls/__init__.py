# SPDX-License-Identifier: Apache-2.0
"""Calling plugins: a worker pool per plugin, calls with a deadline, a circuit breaker, and checked results."""
