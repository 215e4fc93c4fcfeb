# SPDX-License-Identifier: Apache-2.0
"""check, maintain and discover without a running service, on the same plugins and rules."""
