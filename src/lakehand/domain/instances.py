# SPDX-License-Identifier: Apache-2.0
"""Instances: whether a process of the service takes on work."""

from lakehand.domain.words import Word

STATE = "state"  # the key in what an instance reports of itself


class InstanceState(Word):
    SERVING = "serving"
    DRAINING = "draining"  # it claims nothing new and still holds something
    DRAINED = "drained"  # it holds nothing: it can be stopped
    STOPPED = "stopped"
