# SPDX-License-Identifier: Apache-2.0
"""Structured logs: one line per event, with fields; JSON for machines, readable on a terminal; without secrets."""

import logging
import re
import sys
from datetime import datetime, timezone
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

from lakehand.domain.masks import Masks
from lakehand.domain.texts import visible

FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
_SECRET = re.compile(
    r"((?:token|key|password|secret|authorization)[\"']?\s*[=:]\s*[\"']?(?:bearer\s+)?)[^\s&\"',;]+", re.I
)
NO_SECRETS = Masks()
QUIET = ("alembic", "uvicorn", "httpx", "httpcore", "py4j", "pyiceberg")


def hidden(text: str, masks: Masks = NO_SECRETS) -> str:
    """The text without what is a secret of the settings, or looks like one."""
    return _SECRET.sub(r"\1***", masks.hide(text))


def moment(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(JsonFormatter):
    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        super().__init__("%(levelname)s %(name)s %(message)s", rename_fields={"levelname": "level", "name": "logger"})

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return moment(record)

    def add_fields(
        self, log_data: dict[str, object], record: logging.LogRecord, message_dict: dict[str, object]
    ) -> None:
        super().add_fields(log_data, record, message_dict)
        log_data["time"] = moment(record)
        log_data.pop("taskName", None)

    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        return {
            name: hidden(value, self.masks) if isinstance(value, str) else self.masks.hide_all(value)
            for name, value in log_data.items()
        }


class ReadableLines(logging.Formatter):
    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self.masks = masks

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = "".join(f"  {name}={value}" for name, value in fields_of(record).items())
        line = visible(f"{at} {record.levelname.lower():7} {record.getMessage()}{fields}")
        trouble = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return hidden(line + visible(trouble, keep="\n\t"), self.masks)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in FIELDS}


def set_up(level: str = "info", format: str = "auto", stream: TextIO | None = None, masks: Masks = NO_SECRETS) -> None:
    """Send all logs to one stream, by default stderr."""
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    readable = format == "text" or (format == "auto" and out.isatty())
    handler.setFormatter(ReadableLines(masks) if readable else JsonLines(masks))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
