# SPDX-License-Identifier: Apache-2.0
"""How messages about alerts leave the service: by Apprise, and as a signed webhook."""
