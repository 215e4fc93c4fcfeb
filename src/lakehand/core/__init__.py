# SPDX-License-Identifier: Apache-2.0
"""What the service does: intake, decisions, dispatch and supervision, all through ports."""
