# SPDX-License-Identifier: Apache-2.0
"""Tables over gRPC with the generated client."""

import grpc
import pytest

from lakehand.rpc.generated import tables_pb2 as pb
from tests.rpc.parts import RpcClient, failure_of


def test_a_table_is_added_once_and_listed(client: RpcClient) -> None:
    request = pb.AddTableRequest(location="/data/trips", action_types=["compaction"], owner="ann")

    first, again = client.tables.AddTable(request), client.tables.AddTable(request)
    listed = client.tables.ListTables(pb.ListTablesRequest(owner="ann")).tables

    assert (first.is_new, again.is_new) == (True, False)
    assert [(table.location, table.owner, list(table.action_types)) for table in listed] == [
        ("/data/trips", "ann", ["compaction"])
    ]
    assert listed[0].heartbeat_timeout.seconds == 600
    assert listed[0].created_at.seconds > 0
    assert not listed[0].HasField("changed_at")


def test_an_unknown_table_is_not_found(client: RpcClient) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        client.tables.GetTable(pb.GetTableRequest(id=7))

    assert failure_of(failed.value) == (grpc.StatusCode.NOT_FOUND, "not-found")
