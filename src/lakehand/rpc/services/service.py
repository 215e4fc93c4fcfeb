# SPDX-License-Identifier: Apache-2.0
"""The service itself: version, plugins, instances."""

from lakehand.core.ports import PluginReport
from lakehand.rpc.context import Call
from lakehand.rpc.generated import service_pb2 as pb
from lakehand.rpc.messages import fill


def get_version(call: Call, _request: pb.GetVersionRequest) -> pb.GetVersionResponse:
    return fill(pb.GetVersionResponse(), call.context.about)


def list_plugins(call: Call, _request: pb.ListPluginsRequest) -> pb.ListPluginsResponse:
    return pb.ListPluginsResponse(plugins=[plugin_message(one) for one in call.context.plugins()])


def plugin_message(report: PluginReport) -> pb.Plugin:
    pairs = [pb.FormatActions(format=name, actions=actions) for name, actions in report.pairs.items()]
    return fill(pb.Plugin(), report, pairs=pairs)


def list_instances(call: Call, _request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
    return fill(pb.ListInstancesResponse(), instances=call.context.store.instances.list())
