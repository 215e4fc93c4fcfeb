# SPDX-License-Identifier: Apache-2.0
"""Where work runs; an engine holds no truth, the table's metadata does."""
