# SPDX-License-Identifier: Apache-2.0
"""Settings, plugins, wiring and the server: the only place that builds objects."""
