# SPDX-License-Identifier: Apache-2.0
"""The Lance jobs: planned and committed in the driver by Lance's own library, rewritten on Spark's executors."""
