# SPDX-License-Identifier: Apache-2.0
"""The certificate and its key: what is wrong with a pair is said at start, and later changes nothing."""

import logging
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from lakehand.app.server import open_certificates
from lakehand.app.settings import Settings, load
from lakehand.app.tls import LARGEST_FILE, Certificates
from lakehand.domain.errors import Invalid

CA = trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    write(*pair)
    return pair


def write(certificate: Path, key: Path) -> None:
    made = CA.issue_cert("localhost")
    key.write_bytes(made.private_key_pem.bytes())
    key.chmod(0o600)
    certificate.write_bytes(made.cert_chain_pems[0].bytes())


def encrypted(key: bytes) -> bytes:
    private = load_pem_private_key(key, None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hush"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_pair_is_loaded_and_its_key_is_not_shown(files: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    current = Certificates(*files).current

    assert (current.certificate, current.key, current.version) == (files[0].read_bytes(), files[1].read_bytes(), 1)
    assert "PRIVATE" not in repr(current)
    assert warnings(caplog) == []


def test_a_missing_file_is_named(files: tuple[Path, Path]) -> None:
    for file, setting in zip(files, ("tls_certificate", "tls_key"), strict=True):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(Invalid, match=rf"{setting}: {file} cannot be read \(No such file"):
            Certificates(*files)
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("which", "content", "message"),
    [
        (0, b"", "holds no certificate in PEM"), (0, b"x" * (LARGEST_FILE + 1), "is larger than"),
        (0, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no certificate in PEM"),
        (1, b"", "holds no private key in PEM"), (1, CA.private_key_pem.bytes(), "is not the key of"),
        (1, encrypted(CA.private_key_pem.bytes()), "is encrypted"),
    ],
    ids=["empty", "large", "no-certificate", "no-key", "another-key", "encrypted"],
)  # fmt: skip
def test_a_pair_that_cannot_be_used_stops_the_start_and_says_what_to_do(
    files: tuple[Path, Path], which: int, content: bytes, message: str
) -> None:
    files[which].write_bytes(content)
    with pytest.raises(Invalid, match=message) as error:
        Certificates(*files)
    assert str(files[which]) in str(error.value)


def test_a_certificate_without_its_key_is_no_setting(tmp_path: Path, files: tuple[Path, Path]) -> None:
    for name, file in zip(("tls_certificate", "tls_key"), files, strict=True):
        with pytest.raises(Invalid, match="tls_certificate and tls_key belong together"):
            load({"home": tmp_path / "home", name: file})


def test_a_service_has_a_certificate_only_with_the_settings(files: tuple[Path, Path]) -> None:
    assert open_certificates(Settings()) is None
    opened = open_certificates(Settings(tls_certificate=files[0], tls_key=files[1]))
    assert opened is not None
    assert opened.current.certificate == files[0].read_bytes()


def test_a_changed_pair_gets_a_new_version(files: tuple[Path, Path]) -> None:
    certificates = Certificates(*files)
    assert not certificates.reload()

    write(*files)

    assert certificates.reload()
    assert certificates.current.version == 2
    assert (certificates.current.certificate, certificates.current.key) == tuple(file.read_bytes() for file in files)


@pytest.mark.parametrize("which", [0, 1], ids=["certificate", "key"])
@pytest.mark.parametrize("damage", ["half", "other", "gone"])
def test_a_broken_pair_keeps_the_old_one_and_is_logged_once(
    files: tuple[Path, Path], which: int, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(*files)
    old, whole = certificates.current, [file.read_bytes() for file in files]
    if damage == "gone":
        files[which].unlink()
    elif damage == "half":
        files[which].write_bytes(whole[which][:100])
    else:
        write(*files)
        files[which].write_bytes(whole[which])

    assert not any(certificates.reload() for _ in range(3))

    assert certificates.current is old
    [warning] = warnings(caplog)
    assert str(files[which]) in warning or damage == "other"
    write(*files)
    assert certificates.reload()
    assert certificates.current.certificate != old.certificate


def test_a_key_that_others_may_read_is_noticed(files: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    files[1].chmod(0o644)
    Certificates(*files)
    [warning] = warnings(caplog)
    assert f"chmod o-r {files[1]}" in warning
