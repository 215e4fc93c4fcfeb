# SPDX-License-Identifier: Apache-2.0
"""The style of the .proto files, from their descriptors. The rules are ours, after the protobuf style guide."""

import re
from collections.abc import Iterator
from functools import cache

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
)

from tools.protos import PROTOS, read_protos

SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
PASCAL = re.compile(r"([A-Z][a-z0-9]+)+")
SHOUTED = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
MESSAGES, ENUMS, SERVICES = 4, 5, 6  # numbers of the parts of a file, of which paths consist
FIELDS, VALUES, METHODS = 2, 2, 2


@cache
def files() -> tuple[FileDescriptorProto, ...]:
    return tuple(read_protos().file)


def messages() -> Iterator[tuple[FileDescriptorProto, DescriptorProto]]:
    return ((file, message) for file in files() for message in file.message_type)


def enums() -> Iterator[EnumDescriptorProto]:
    return (enum for file in files() for enum in file.enum_type)


def methods() -> Iterator[MethodDescriptorProto]:
    return (method for file in files() for service in file.service for method in service.method)


def paths(file: FileDescriptorProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and the path of everything that needs a comment."""
    for at, service in enumerate(file.service):
        yield service.name, (SERVICES, at)
        yield from ((method.name, (SERVICES, at, METHODS, n)) for n, method in enumerate(service.method))
    for at, message in enumerate(file.message_type):
        yield message.name, (MESSAGES, at)
        yield from ((f"{message.name}.{f.name}", (MESSAGES, at, FIELDS, n)) for n, f in enumerate(message.field))
    for at, enum in enumerate(file.enum_type):
        yield enum.name, (ENUMS, at)
        yield from ((value.name, (ENUMS, at, VALUES, n)) for n, value in enumerate(enum.value))


def uncommented(file: FileDescriptorProto) -> list[str]:
    comments = {tuple(one.path): one.leading_comments.strip() for one in file.source_code_info.location}
    return [name for name, path in paths(file) if not comments.get(path, "").endswith(".")]


def test_every_file_is_read() -> None:
    assert len(files()) == len(list(PROTOS.rglob("*.proto"))) >= 11


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.name))
def test_everything_has_a_comment_that_is_a_sentence(file: FileDescriptorProto) -> None:
    assert uncommented(file) == []


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.name))
def test_the_package_is_versioned_and_matches_the_folder(file: FileDescriptorProto) -> None:
    assert (file.package, file.syntax) == ("lakehand.v1", "proto3")
    assert re.fullmatch(r"lakehand/v1/[a-z_]+\.proto", file.name)
    assert not file.extension


def test_names_are_written_as_the_style_guide_says() -> None:
    fields = [field.name for _, message in messages() for field in message.field]
    kinds = [message.name for _, message in messages()] + [enum.name for enum in enums()]
    services = [service.name for file in files() for service in file.service]

    assert [name for name in fields if not SNAKE.fullmatch(name)] == []
    assert [name for name in [*kinds, *services, *(m.name for m in methods())] if not PASCAL.fullmatch(name)] == []
    assert [value.name for enum in enums() for value in enum.value if not SHOUTED.fullmatch(value.name)] == []


def test_an_enum_begins_with_unspecified_and_repeats_its_name() -> None:
    for enum in enums():
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper()
        assert (enum.value[0].name, enum.value[0].number) == (f"{prefix}_UNSPECIFIED", 0)
        assert all(value.name.startswith(f"{prefix}_") for value in enum.value)
        assert [value.number for value in enum.value] == list(range(len(enum.value)))


def test_numbers_of_fields_have_no_gaps() -> None:
    """A field that is taken out later is reserved, so that its number is not used again."""
    for _, message in messages():
        reserved = {number for one in message.reserved_range for number in range(one.start, one.end)}
        used = sorted([*(field.number for field in message.field), *reserved])
        assert used == list(range(1, len(used) + 1)), message.name


def test_every_rpc_has_a_request_and_a_response_of_its_own() -> None:
    named = [(m.name, m.input_type, m.output_type) for m in methods()]

    assert named == [(name, f".lakehand.v1.{name}Request", f".lakehand.v1.{name}Response") for name, _, _ in named]
    assert len({name for name, _, _ in named}) == len(named)
    assert [m.name for m in methods() if m.client_streaming] == []
    assert [m.name for m in methods() if m.server_streaming != m.name.startswith("Watch")] == []


def test_lists_that_have_pages_name_them_alike() -> None:
    requests = {message.name: [field.name for field in message.field] for _, message in messages()}
    paged = [name for name, fields in requests.items() if "page_size" in fields]

    assert len(paged) >= 5
    for name in paged:
        assert requests[name][:2] == ["page_size", "page_token"]
        assert requests[name.replace("Request", "Response")][1:] == ["next_page_token"]


def test_times_are_timestamps_and_spans_are_durations() -> None:
    for _, message in messages():
        for field in message.field:
            is_time = field.name in ("at", "since", "oldest") or field.name.endswith(("_at", "_since", "_until"))
            assert not is_time or field.type_name == ".google.protobuf.Timestamp", f"{message.name}.{field.name}"
            assert "seconds" not in field.name
            assert field.type not in (FieldDescriptorProto.TYPE_FLOAT, FieldDescriptorProto.TYPE_BYTES)


def test_the_rules_see_a_field_without_a_comment() -> None:
    file = FileDescriptorProto.FromString(files()[0].SerializeToString())
    assert uncommented(file) == []
    [name, path] = list(paths(file))[-1]
    location = next(one for one in file.source_code_info.location if tuple(one.path) == path)

    location.leading_comments = ""

    assert uncommented(file) == [name]
