# SPDX-License-Identifier: Apache-2.0
"""Words the messages of alerts. Text of a stranger's table is made visible and cut."""

from lakehand.domain.alerts import Alert, AlertMessage, MessageKind, Severity
from lakehand.domain.processes import Json
from lakehand.domain.texts import visible
from lakehand.spi.alerters import AlertText

LONGEST_TITLE, LONGEST_BODY = 200, 2000


def text_of(message: AlertMessage) -> AlertText:
    if message.alert is None:
        return summary_text(message)
    alert, cause = message.alert, message.alert.cause
    word = cause.severity if message.kind is MessageKind.OPENED else message.kind
    return AlertText(
        id=str(message.id), kind=str(message.kind), severity=str(cause.severity),
        title=cut(f"[{word}] {visible(cause.title)}", LONGEST_TITLE), body=body_of(alert, message.kind),
        facts=facts_of(alert),
    )  # fmt: skip


def summary_text(message: AlertMessage) -> AlertText:
    body = "Many alerts opened within a minute; these have no message of their own: see lakehand alerts list."
    return AlertText(
        id=str(message.id), kind=str(message.kind), severity=str(message.severity),
        title=f"[{message.severity}] and {message.more} more alerts", body=body, facts={"more": message.more},
    )  # fmt: skip


def check_text(receiver: str, by: str) -> AlertText:
    body = f"{visible(by)} asked Lakehand to send it. Nothing is wrong."
    title = f"[test] Lakehand can reach {receiver}"
    return AlertText(id="test", kind=str(MessageKind.TEST), severity=str(Severity.WARNING), title=title, body=body)


def body_of(alert: Alert, kind: MessageKind) -> str:
    cause = alert.cause
    is_over = kind is MessageKind.RESOLVED and alert.resolved_at is not None
    lines = [
        f"over since {alert.resolved_at:%Y-%m-%d %H:%M} UTC" if is_over else cut(visible(cause.message), LONGEST_BODY),
        f"since {alert.opened_at:%Y-%m-%d %H:%M} UTC" + (f", {alert.count} times" if alert.count > 1 else ""),
        *(f"{name}: {visible(value)}" for name, value in named(alert) if value),
    ]
    return "\n".join(lines)


def named(alert: Alert) -> list[tuple[str, object]]:
    cause = alert.cause
    return [
        ("owner", cause.owner), ("queue", cause.queue), ("format", cause.format), ("table", cause.table),
        ("operation", cause.operation), ("instance", cause.instance), ("alert", alert.id),
    ]  # fmt: skip


def facts_of(alert: Alert) -> dict[str, Json]:
    cause = alert.cause
    return {
        "id": alert.id, "cause": cause.key, "kind": str(cause.kind), "severity": str(cause.severity),
        "message": cut(visible(cause.message), LONGEST_BODY), "table": cause.table, "operation": cause.operation,
        "owner": cause.owner, "queue": cause.queue, "format": cause.format, "instance": cause.instance,
        "count": alert.count, "opened_at": alert.opened_at.isoformat(),
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None,
    }  # fmt: skip


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
