# SPDX-License-Identifier: Apache-2.0
"""Alerts: list, silence, and send a test."""

from lakehand.api.alerts import AlertQuery, SilenceRequest, TestAnswer, TestRequest, alert_answer
from lakehand.api.fields import answer
from lakehand.domain.alerts import Alert, AlertId
from lakehand.rpc.context import Call
from lakehand.rpc.generated import alerts_pb2 as pb
from lakehand.rpc.messages import fill, id_of, read


def list_alerts(call: Call, request: pb.ListAlertsRequest) -> pb.ListAlertsResponse:
    query = read(AlertQuery, request, "all", state="all" if request.all else "open")
    page = call.context.alerts.list(only_open=query.state == "open", limit=query.limit, cursor=query.cursor)
    return pb.ListAlertsResponse(alerts=map(alert_message, page.items), next_page_token=page.next or "")


def test_alerts(call: Call, request: pb.TestAlertsRequest) -> pb.TestAlertsResponse:
    results = call.context.requests.test_alerts(call.caller, read(TestRequest, request))
    return fill(pb.TestAlertsResponse(), tests=[answer(TestAnswer, one) for one in results])


def silence_alert(call: Call, request: pb.SilenceAlertRequest) -> pb.SilenceAlertResponse:
    alert, wanted = AlertId(id_of(request)), read(SilenceRequest, request, "id")
    return pb.SilenceAlertResponse(alert=alert_message(call.context.requests.silence_alert(call.caller, alert, wanted)))


def alert_message(alert: Alert) -> pb.Alert:
    return fill(pb.Alert(), alert_answer(alert))
