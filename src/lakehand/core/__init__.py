# SPDX-License-Identifier: Apache-2.0
"""What the service does: loops and desks that reach the world only through ports and plugins."""
