# SPDX-License-Identifier: Apache-2.0
"""What requests may contain: every interface for programs reads it by these models."""
