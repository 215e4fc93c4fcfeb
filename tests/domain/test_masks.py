# SPDX-License-Identifier: Apache-2.0
"""No secret of the settings is in a text that somebody else wrote, in whatever spelling; other words stay readable."""

import base64
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from lakehand.domain.masks import HIDDEN, Masks

CATALOG = {
    "uri": "https://ann:hush@lake:8181/api?token=qu3ry-token",
    "warehouse": "s3://lake/wh",
    "credential": "client-id-1:S3cr3t+Part/of it",
    "header.Authorization": "Bearer abc.def-123",
    "header.X-Tenant": "tenant 77 of nobody",
    "s3.secret-access-key": "/wJalrXUtnFEMI+K7MDENG",
    "jdbc.password": "p'ss\"word",
    "vendor.option": "Qx91kkPP",
    "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "header.X-Iceberg-Access-Delegation": "vended-credentials",
    "rest.auth.type": "oauth2",
    "token-refresh-enabled": "true",
    "s3.endpoint": "http://minio:9000",
    "client.region": "eu-central-1",
}
SECRETS = [
    "hush", "qu3ry-token", "client-id-1:S3cr3t+Part/of it", "S3cr3t+Part/of it", "S3cr3t+Part", "Bearer abc.def-123",
    "abc.def-123", "tenant 77 of nobody", "/wJalrXUtnFEMI+K7MDENG", "p'ss\"word", "Qx91kkPP",
]  # fmt: skip
SPELLINGS: list[Callable[[str], str]] = [
    str, repr, quote, quote_plus, lambda text: quote(text, safe=""), lambda text: repr(text.encode()),
    lambda text: f"https://ann:{quote(text, safe='')}@host/",
]  # fmt: skip


@pytest.fixture(scope="module")
def masks() -> Masks:
    return Masks.of(CATALOG)


@pytest.mark.parametrize("secret", SECRETS)
def test_every_value_of_a_catalog_and_its_parts_are_hidden_in_every_spelling(masks: Masks, secret: str) -> None:
    for spell in SPELLINGS:
        hidden = masks.hide(f"400 Bad Request for {spell(secret)} of a table")

        assert "400 Bad Request for" in hidden
        assert "of a table" in hidden
        for text in (secret, quote(secret), repr(secret)[1:-1]):
            assert text not in hidden


def test_a_header_of_basic_authentication_is_hidden(masks: Masks) -> None:
    header = base64.b64encode(CATALOG["credential"].encode()).decode()

    assert masks.hide(f"sent {header}!") == f"sent {HIDDEN}!"


@pytest.mark.parametrize(
    "text",
    [
        "the catalog at https://lake:8181/api does not answer",
        "s3://lake/wh/db/trips/metadata/v3.metadata.json: no such file",
        "org.apache.iceberg.aws.s3.S3FileIO cannot be loaded from http://minio:9000 in eu-central-1",
        "the change token is 17:4, the record key=id, and cleaning is true",
        "basic authentication with the type oauth2 failed: the credentials are wrong, and no Bearer token came",
    ],
)
def test_what_is_no_secret_stays_readable(masks: Masks, text: str) -> None:
    assert masks.hide(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (
            "grant_type=client_credentials&client_secret=v3nded&x=1",
            "grant_type=client_credentials&client_secret=***&x=1",
        ),
        ("{'Authorization': 'Bearer v3nded', 'a': 1}", "{'Authorization': 'Bearer ***', 'a': 1}"),
        ("s3.secret-access-key=v3nded, s3.region=x", "s3.secret-access-key=***, s3.region=x"),
        ("Authorization=Bearer v3nded", "Authorization=Bearer ***"),
        ('{"access_token": "v3nded"}', '{"access_token": "***"}'),
        ("curl -u https://ann:v3nded@host/", "curl -u https://ann:***@host/"),
    ],
)
def test_secrets_that_are_in_no_settings_are_known_by_their_names(text: str, hidden: str) -> None:
    assert Masks().hide(text) == hidden
    assert Masks().hide(hidden) == hidden


def test_an_error_keeps_its_type_and_its_number_and_loses_its_secrets(masks: Masks) -> None:
    try:
        try:
            raise ValueError("the cause says abc.def-123", {"credential": "S3cr3t+Part"})
        except ValueError as cause:
            raise FileNotFoundError(2, "client_secret=other", "/files/Qx91kkPP") from cause
    except FileNotFoundError as error:
        hidden = masks.hide_error(error)

    assert isinstance(hidden, FileNotFoundError)
    assert hidden.errno == 2
    assert str(hidden) == "[Errno 2] client_secret=***: '/files/***'"
    assert isinstance(hidden.__cause__, ValueError)
    assert "abc.def" not in repr(hidden.__cause__)
    assert "S3cr3t" not in repr(hidden.__cause__)


class Stubborn(Exception):
    def __str__(self) -> str:
        return "always Qx91kkPP"


def test_an_error_whose_text_cannot_be_changed_is_replaced(masks: Masks) -> None:
    with pytest.raises(OSError, match=r"Stubborn: always \*\*\*") as caught, masks.hiding():
        raise Stubborn
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_cause_whose_text_cannot_be_changed_is_left_out(masks: Masks) -> None:
    with pytest.raises(OSError, match="it failed") as caught, masks.hiding():
        raise OSError("it failed") from Stubborn()
    assert caught.value.__cause__ is None


def test_a_log_keeps_its_length_so_that_it_can_be_read_on(masks: Masks) -> None:
    text = "a line with Qx91kkPP and password=other-one\nthe next"

    hidden = masks.hide_evenly(text)

    assert hidden == "a line with ******** and password=*********\nthe next"


def test_texts_in_a_document_are_hidden(masks: Masks) -> None:
    document = {"files": 3, "causes": [{"message": "Bearer abc.def-123"}], "path": "/lake"}

    assert masks.hide_all(document) == {"files": 3, "causes": [{"message": "***"}], "path": "/lake"}
