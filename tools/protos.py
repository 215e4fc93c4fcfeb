# SPDX-License-Identifier: Apache-2.0
"""Makes the Python code of the gRPC API from its .proto files: python -m tools.protos. The build hook calls it, too."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto
from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
PROTOS = ROOT / "src" / "lakehand" / "rpc" / "proto"
MADE = ROOT / "src" / "lakehand" / "rpc" / "generated"
PACKAGE = "lakehand.rpc.generated"
PROTO_PACKAGE = "lakehand.v1"
HEAD = "# SPDX-License-Identifier: Apache-2.0\n"
INIT = f'{HEAD}"""Made from the .proto files by tools/protos.py."""\n'
WELL_KNOWN = Path(str(protoc.__file__)).parent / "_proto"


def generate(made: Path = MADE, protos: Path = PROTOS) -> None:
    """Write messages, stubs and their types, in place of what was there."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        compile_protos(out, "python", "pyi", "grpc_python", protos=protos)
        fresh = made.with_name(f"{made.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for file in sorted((out / PROTO_PACKAGE.replace(".", "/")).iterdir()):
            text = HEAD + file.read_text(encoding="utf-8").replace(
                f"from {PROTO_PACKAGE} import", f"from {PACKAGE} import"
            )
            (fresh / file.name).write_text(text, encoding="utf-8")
        for proto in descriptors(out).file:
            if proto.service:
                (fresh / f"{module_of(proto)}_grpc.pyi").write_text(stub_types(proto), encoding="utf-8")
        (fresh / "__init__.py").write_text(INIT, encoding="utf-8")
        shutil.rmtree(made, ignore_errors=True)
        fresh.rename(made)


def compile_protos(out: Path, *languages: str, protos: Path = PROTOS) -> None:
    files = [str(file) for file in sorted(protos.rglob("*.proto"))]
    words = ["protoc", f"-I{protos}", f"-I{WELL_KNOWN}", *(f"--{language}_out={out}" for language in languages)]
    described = [f"--descriptor_set_out={out / 'descriptors'}", "--include_source_info"]
    if protoc.main([*words, *described, *files]) != 0:
        raise SystemExit("the .proto files could not be compiled")


def descriptors(out: Path) -> FileDescriptorSet:
    """Our files as the compiler understood them, with their comments."""
    return FileDescriptorSet.FromString((out / "descriptors").read_bytes())


def read_protos() -> FileDescriptorSet:
    with TemporaryDirectory() as folder:
        compile_protos(Path(folder))
        return descriptors(Path(folder))


def module_of(proto: FileDescriptorProto) -> str:
    return f"{Path(proto.name).stem}_pb2"


def stub_types(proto: FileDescriptorProto) -> str:
    """The types of the clients, which the compiler's plugin does not write."""
    module = module_of(proto)
    lines = [HEAD + f"import grpc\nimport grpc.aio\n\nfrom {PACKAGE} import {module}\n"]
    for service in proto.service:
        lines.append(f"class {service.name}Stub:")
        lines.append("    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...")
        lines += [f"    {line}" for method in service.method for line in method_types(method, module)]
    return "\n".join(lines) + "\n"


def method_types(method: MethodDescriptorProto, module: str) -> Iterator[str]:
    kind = "UnaryStreamMultiCallable" if method.server_streaming else "UnaryUnaryMultiCallable"
    names = (name.rsplit(".", 1)[-1] for name in (method.input_type, method.output_type))
    yield f"{method.name}: grpc.{kind}[{', '.join(f'{module}.{name}' for name in names)}]"


if __name__ == "__main__":
    generate()
