# SPDX-License-Identifier: Apache-2.0
"""The panels of the Grafana board, as data, in the order in which the board shows them."""

from tools.board.fleet_panels import FLEET, OPERATIONS
from tools.board.service_panels import API, ENGINES, SERVICE

ROWS = {
    "Fleet": FLEET, "Operations": OPERATIONS, "Engines and plugins": ENGINES, "API and writers": API,
    "Service": SERVICE,
}  # fmt: skip
