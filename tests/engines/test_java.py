# SPDX-License-Identifier: Apache-2.0
"""Which Java is chosen, and what a person without one is told."""

from pathlib import Path

import pytest

from lakehand.engines.spark import java as search
from lakehand.engines.spark.java import BUNDLED, Java, JavaMissing, java_home


@pytest.fixture(autouse=True)
def _no_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "bundled_home", lambda: None)


def a_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named, on_path = a_java(tmp_path / "named", "17.0.1"), a_java(tmp_path / "on-path", "17.0.2")

    found = java_home({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}, folders=())

    assert found == Java(home=named, version=17, origin="JAVA_HOME")


def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path) -> None:
    too_new, old = a_java(tmp_path / "25", "25"), a_java(tmp_path / "8", "1.8.0_402")
    good = a_java(tmp_path / "jvm" / "good", "11.0.2")

    found = java_home({"JAVA_HOME": str(too_new), "PATH": str(old / "bin")}, folders=[f"{tmp_path}/jvm/*"])

    assert found == Java(home=good, version=11, origin="usual folder")


def test_17_is_preferred_to_an_11_that_was_found_first(tmp_path: Path) -> None:
    eleven, seventeen = a_java(tmp_path / "11", "11.0.2"), a_java(tmp_path / "17", "17.0.1")

    assert java_home({"JAVA_HOME": str(eleven), "PATH": str(seventeen / "bin")}, folders=()).home == seventeen


def test_the_release_file_spares_starting_the_program(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java", "8")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')

    assert java_home({"JAVA_HOME": str(home)}, folders=()).version == 17


def test_without_any_java_the_error_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"found: none.*JAVA_HOME.*make setup"):
        java_home({"PATH": str(tmp_path)}, folders=())


def test_an_unsupported_java_is_named_in_the_error(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java", "25.0.1")

    with pytest.raises(JavaMissing, match=f"found: 25 in {home}"):
        java_home({"JAVA_HOME": str(home)}, folders=())


def test_a_broken_program_is_no_java(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")

    with pytest.raises(JavaMissing):
        java_home({"JAVA_HOME": str(home)}, folders=())


def test_the_bundled_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = a_java(tmp_path / "bundled", "21.0.8")
    monkeypatch.setattr(search, "bundled_home", lambda: bundled)

    assert java_home({}, folders=()) == Java(home=bundled, version=21, origin=BUNDLED)


def test_only_the_bundled_java_is_given_the_machines_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "cacerts"
    store.touch()
    monkeypatch.setattr(search, "SYSTEM_CERTIFICATES", store)

    assert Java(home=tmp_path, version=17, origin=BUNDLED).options == (f"-Djavax.net.ssl.trustStore={store}",)
    by_variable = Java(home=tmp_path / BUNDLED / "java-runtime", version=17, origin="JAVA_HOME")
    assert by_variable.options == (f"-Djavax.net.ssl.trustStore={store}",)
    assert Java(home=tmp_path, version=17, origin="PATH").options == ()
