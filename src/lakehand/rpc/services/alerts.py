# SPDX-License-Identifier: Apache-2.0
"""Alerts: list, silence, and send a test."""

from lakehand.api.alerts import AlertQuery, SilenceRequest, TestRequest, alert_answer
from lakehand.domain.alerts import Alert, AlertId
from lakehand.rpc.context import Call
from lakehand.rpc.generated import alerts_pb2 as pb
from lakehand.rpc.messages import fill, id_of, read


def list_alerts(call: Call, request: pb.ListAlertsRequest) -> pb.ListAlertsResponse:
    page = call.services.alerts.list(read(AlertQuery, request, "all", state="all" if request.all else "open"))
    return pb.ListAlertsResponse(alerts=map(alert_message, page.items), next_page_token=page.next or "")


def test_alerts(call: Call, request: pb.TestAlertsRequest) -> pb.TestAlertsResponse:
    return fill(pb.TestAlertsResponse(), tests=call.services.alerts.test(call.caller, read(TestRequest, request)))


def silence_alert(call: Call, request: pb.SilenceAlertRequest) -> pb.SilenceAlertResponse:
    alert, wanted = AlertId(id_of(request)), read(SilenceRequest, request, "id")
    return pb.SilenceAlertResponse(alert=alert_message(call.services.alerts.silence(call.caller, alert, wanted)))


def alert_message(alert: Alert) -> pb.Alert:
    return fill(pb.Alert(), alert_answer(alert))
