# SPDX-License-Identifier: Apache-2.0
"""What the service does: loops and services that use the outside only through ports and plugins."""
