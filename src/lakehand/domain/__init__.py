# SPDX-License-Identifier: Apache-2.0
"""The words and rules of Lakehand. Nothing here touches a clock, a file or a network."""
