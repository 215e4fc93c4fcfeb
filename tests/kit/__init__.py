# SPDX-License-Identifier: Apache-2.0
"""What tests, benchmarks and the demo's tests share: a running service, polling, and jobs that are interrupted."""
