# SPDX-License-Identifier: Apache-2.0
"""The demo: a real service, a real Hudi writer, two tables before and after."""
