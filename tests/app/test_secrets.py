# SPDX-License-Identifier: Apache-2.0
"""The service does not start with secrets that lock nothing."""

from pathlib import Path
from typing import Any

import pytest

from lakehand.app.secrets import LEAST
from lakehand.app.settings import Settings, load
from lakehand.domain.errors import Invalid

GOOD = "5b7e0c1f9a3d42e8"
OTHER = "c4a9d2e6f1b80357"
assert len(GOOD) == LEAST


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this machine plays a part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*Settings.model_fields, "config", "warehouse"):
        monkeypatch.delenv(f"LAKEHAND_{name.upper()}", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("word", "pair 1 has no '='"),
        (GOOD, "pair 1 has no '='"),
        (f"alice={GOOD},{OTHER}", "pair 2 has no '='"),
        (f"alice={GOOD},empty=", "the secret of empty is empty"),
        ("alice=", "the secret of alice is empty"),
        ("alice=   ", "the secret of alice is empty"),
        ('{"alice": " \\t"}', "the secret of alice is empty"),
        ("alice=short-word", "the secret of alice must have 16 to 512 characters"),
        ("alice=" + "x" * 513, "the secret of alice must have 16 to 512 characters"),
        (f"alice={GOOD} {OTHER}", "the secret of alice may hold only printable ASCII"),
        (f"alice={GOOD}é", "the secret of alice may hold only printable ASCII"),
        (f"={GOOD}", "the name of token 1"),
        (f"a b/{OTHER}={GOOD}", "the name of token 1"),
        (f"alice={GOOD},alice={OTHER}", "the name alice appears twice"),
        (f'{{"alice": "{GOOD}", "alice": "{OTHER}"}}', "the name alice appears twice"),
        (f"alice={GOOD},Alice={OTHER}", "the name Alice appears twice"),
        (f"alice={GOOD},bo={GOOD}", "alice and bo have the same secret"),
        (f"coordinator={GOOD}", "coordinator is reserved"),
        (f"anonymous={GOOD}", "anonymous is reserved"),
        ("{oops", "it is not a JSON object"),
        ("", "it names no token"),
        (" , ", "it names no token"),
    ],
)
def test_tokens_that_lock_nothing_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str, says: str) -> None:
    monkeypatch.setenv("LAKEHAND_TOKENS", text)

    with pytest.raises(Invalid) as refused:
        load()

    assert f"tokens: Value error, {says}" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in (GOOD, OTHER, "short-word", "word)"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[tokens]\nalice = ""', "the secret of alice is empty"),
        ('[tokens]\nalice = "short-word"', "the secret of alice must have"),
        ("[tokens]", "it names no token"),
        (f'[tokens]\nalice = "{GOOD}"\nbo = "{GOOD}"', "alice and bo have the same secret"),
        ('tokens = "word"', "pair 1 has no '='"),
        ('wire-token = ""', "wire_token: Value error, it is empty"),
        ('callback-key = "  "', "callback_key: Value error, it is empty"),
        ('wire_token = "short-word"', "wire_token: Value error, it must have"),
        (f'wire_token = "{GOOD}"\ncallback_key = "{GOOD}"', "it is the same as wire_token"),
        (f'wire_token = "{GOOD}"\n[tokens]\nbo = "{GOOD}"', "it is the same as the token of bo"),
        ('callback_key = "hudi_write_commit_http_callback"', "every Hudi writer sends by default"),
    ],
)
def test_the_file_is_held_to_the_same_rules(elsewhere: Path, text: str, says: str) -> None:
    (elsewhere / "lakehand.toml").write_text(text, encoding="utf-8")

    with pytest.raises(Invalid) as refused:
        load()

    assert says in str(refused.value)
    assert not any(secret in str(refused.value) for secret in (GOOD, "short-word"))


@pytest.mark.parametrize("name", ["LAKEHAND_WIRE_TOKEN", "LAKEHAND_CALLBACK_KEY", "LAKEHAND_TOKENS__ALICE"])
@pytest.mark.parametrize("text", ["", " ", "short-word"])
def test_an_unset_variable_opens_no_door(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)

    with pytest.raises(Invalid, match=name.removeprefix("LAKEHAND_").partition("__")[0].lower()):
        load()


def test_good_secrets_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_TOKENS", f"alice={GOOD}, ci.bot@team={OTHER},")

    settings: Any = load({"wire_token": "w" + GOOD, "callback_key": "k" + GOOD})

    assert settings.token_secrets() == {"alice": GOOD, "ci.bot@team": OTHER}
    assert (settings.secret("wire_token"), settings.secret("callback_key")) == ("w" + GOOD, "k" + GOOD)
