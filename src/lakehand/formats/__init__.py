# SPDX-License-Identifier: Apache-2.0
"""Table formats, each read without Spark and with its own process factory."""
