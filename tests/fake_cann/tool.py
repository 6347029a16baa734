"""What ASCConfig.cmake runs in place of CANN's tools. A kernel named in FAKE_CANN_FAIL does not compile."""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

DTYPES = {"FLOAT": "float", "BF16": "bfloat16"}
FLAGS = {
    "DynamicCompileStaticFlag": "dynamicCompileStatic", "DynamicFormatFlag": "dynamicFormat",
    "DynamicRankSupportFlag": "dynamicRankSupport", "DynamicShapeSupportFlag": "dynamicShapeSupport",
    "NeedCheckSupportFlag": "needCheckSupport", "PrecisionReduceFlag": "precision_reduce",
}  # fmt: skip


def snake(op_type):
    return re.sub("([A-Z])", r"_\1", op_type[0].lower() + op_type[1:]).lower()


def codegen(out, units, sources):
    """ops-info files from the registrations in the host sources, and op_proto.cc."""
    infos = {unit: {} for unit in units.split()}
    for source in sources.split():
        text = Path(source).read_text()
        header = re.search(r'#include "([^"]*_tiling\.h)"', text).group(1)
        assert (Path(source).parent / header).is_file(), f"{source}: no {header}"
        op_type = re.search(r"OP_ADD\((\w+)\)", text).group(1)
        assert f"class {op_type} : public OpDef" in text, source
        entry = {"opFile": {"value": snake(op_type)}, "opInterface": {"value": snake(op_type)}}
        for kind in ("Input", "Output"):
            found = re.findall(
                rf'this->{kind}\("(\w+)"\)\s*\.ParamType\((\w+)\)\s*\.DataType\(\{{ge::DT_(\w+)\}}\)', text
            )
            for i, (name, need, dtype) in enumerate(found):
                dtype = DTYPES.get(dtype, dtype.lower())
                entry[f"{kind.lower()}{i}"] = {"name": name, "dtype": dtype, "format": "ND", "paramType": need.lower()}
        for method, key in FLAGS.items():
            entry[key] = {"flag": re.search(rf"\.{method}\((\w+)\)", text).group(1)}
        for unit in set(re.findall(r'AddConfig\("(\w+)"', text)) & infos.keys():
            infos[unit][op_type] = entry
    for unit, info in infos.items():
        Path(out, f"aic-{unit}-ops-info.json").write_text(json.dumps(info, indent=4))
    Path(out, "op_proto.cc").write_text("// registrations\n")


def kernel(op_type, source, binary, unit, make):
    assert make != "--make=", "kernels are compiled by make"
    text = Path(source).read_text()
    if op_type in os.environ.get("FAKE_CANN_FAIL", "").split():
        print(f"{source}:7:3: error: no such instruction")
        sys.exit(f"Kernel Compilation Error: OpType {op_type} Kernel File {source}!")
    assert f"void {snake(op_type)}(" in text, f"{source}: no function {snake(op_type)}"
    header = re.search(r'#include "([^"]*tiling\.h)"', text).group(1)
    assert (Path(source).parent / header).is_file(), f"{source}: no {header}"
    digest = hashlib.md5(text.encode()).hexdigest()
    folder = Path(binary, unit, snake(op_type))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{op_type}_{digest}.o").write_bytes(b"\x7fELF" + text.encode())
    (folder / f"{op_type}_{digest}.json").write_text(json.dumps({"kernelName": f"{op_type}_{digest}"}))
    Path(binary, "dynamic", f"{snake(op_type)}.py").write_text(f"# {op_type}\n")


def config(binary, unit):
    folder = Path(binary, "config", unit)
    folder.mkdir(parents=True, exist_ok=True)
    ops = sorted(p.name for p in Path(binary, unit).iterdir())
    for op in ops:
        (folder / f"{op}.json").write_text("{}")
    (folder / "binary_info_config.json").write_text(json.dumps(ops))


def copy(base, target):
    shutil.copytree(base, target, ignore=shutil.ignore_patterns("*.txt"))


def version(home, file):
    found = re.search(r"Version=(.*)", Path(home, "compiler/version.info").read_text()).group(1)
    Path(file).write_text(f"custom_opp_compiler_version={found}\n")


if __name__ == "__main__":
    {f.__name__: f for f in (codegen, kernel, config, copy, version)}[sys.argv[1]](*sys.argv[2:])
