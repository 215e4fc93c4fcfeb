# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all Hudi jobs."""

import gc
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.hudi_tables import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def sockets_of_pyspark() -> Iterator[None]:
    """pyspark leaves a socket to the collector after each ``collect``: it is collected here, not in another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
