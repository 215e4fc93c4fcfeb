# SPDX-License-Identifier: Apache-2.0
"""Holds docs/plugins.md to the code: whatever an author may import is documented there."""

import re
from pathlib import Path

import pytest

import lakehand.spi
import lakehand.spi.kit
import lakehand.storage
import lakehand.testing
from lakehand.app.settings import load
from lakehand.jobs import job
from lakehand.spi import (
    Alerter,
    AlertText,
    EngineState,
    ExecuteEngine,
    Finding,
    ProcessFactory,
    Remedy,
    Status,
    TableFormat,
    health,
)

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
REFERENCE = PAGE.partition("\n## Reference\n")[2]
SPANS = re.findall(r"`([^`\n]+)`", REFERENCE) + re.findall(r"^### (.+)$", REFERENCE, re.MULTILINE)
CODE = set(re.findall(r"\w+", " ".join(SPANS)))


def constants(words: dict[str, object]) -> set[str]:
    return {name for name, value in words.items() if name.isupper() and isinstance(value, str)}


def members(contract: type) -> set[str]:
    return {name for name in vars(contract) if not name.startswith("_")} | set(contract.__annotations__)


PUBLIC = {
    "lakehand.spi": set(lakehand.spi.__all__),
    "lakehand.spi.kit": set(lakehand.spi.kit.__all__),
    "lakehand.testing": set(lakehand.testing.__all__),
    "lakehand.storage": set(lakehand.storage.__all__),
    "lakehand.jobs.job": {"Job", "JobCanceled", "Record"} | members(job.Job),
    "lakehand.spi.health": constants(vars(health)) | {str(getattr(health, name)) for name in constants(vars(health))},
    "ProcessFactory": members(ProcessFactory),
    "TableFormat": members(TableFormat),
    "ExecuteEngine": members(ExecuteEngine),
    "Alerter": members(Alerter),
    "AlertText": set(AlertText.__annotations__),
    "closed sets": {word.name for words in (EngineState, Finding, Remedy, Status) for word in words},
}


@pytest.mark.parametrize("where", sorted(PUBLIC))
def test_every_public_name_is_in_the_reference(where: str) -> None:
    assert sorted(PUBLIC[where] - CODE) == []


def test_the_example_of_switches_is_accepted(tmp_path: Path) -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```", PAGE.partition("\n## Switching")[2], re.DOTALL | re.MULTILINE)
    (tmp_path / "lakehand.toml").write_text(example)
    configs = load(config=tmp_path / "lakehand.toml").plugin_configs()

    assert configs["process-factory", "delta-checkpoint"].properties == {"delta-checkpoint.commits": "20"}
    assert (configs["table-format", "delta"].enabled, configs["engine", "subprocess"].properties) == (
        False, {"slots": "4"},
    )  # fmt: skip
