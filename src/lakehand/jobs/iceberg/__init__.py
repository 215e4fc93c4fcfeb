# SPDX-License-Identifier: Apache-2.0
"""The Iceberg jobs: rewrites through Iceberg's own actions, and two that delete, each with limits of its own."""
