# SPDX-License-Identifier: Apache-2.0
"""How plugins are found, called and kept apart: worker pools, circuit breakers, checked results, views of tables."""
