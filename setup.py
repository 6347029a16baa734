"""Package metadata and extras; see README.md."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
RESOURCES = sorted(
    p
    for folder in ("op_templates", "proto")
    for p in (HERE / folder).rglob("*")
    if p.is_file() and "__pycache__" not in p.parts
)


class BuildWithResources(build_py):
    """Puts op_templates/ and proto/ into the package as _resources/; an editable install reads them where they are."""

    def run(self):
        super().run()
        if not getattr(self, "editable_mode", False):
            for source, target in self._resources():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode=True):
        outputs = super().get_outputs(include_bytecode)
        if getattr(self, "editable_mode", False):
            return outputs
        return [*outputs, *(str(target) for _, target in self._resources())]

    def _resources(self):
        package = Path(self.build_lib) / "torchair_autofuse" / "_resources"
        return [(p, package / p.relative_to(HERE)) for p in RESOURCES]


HOST = ["torch==2.13.0", "torch_npu==2.13.0", "pyyaml", "packaging"]
TEST = [
    "pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "ruff>=0.9", "mypy>=1.14", "types-protobuf",
    "grpcio-tools>=1.62", "cmake>=3.16", "mini-racer>=0.12", "transformers>=4.57", "accelerate>=1.0", "diffusers>=0.35",
]  # fmt: skip

setup(
    name="torchair_autofuse",
    version="0.1.0",
    description="Fuses small vector ops in TorchAir's GE graphs into generated Ascend C kernels",
    python_requires=">=3.10",
    packages=find_packages(include=["torchair_autofuse", "torchair_autofuse.*"]),
    package_data={
        "torchair_autofuse.report": ["page/*"],
        "torchair_autofuse.soc": ["*.toml"],
        "torchair_autofuse.plan.patterns": ["*.toml"],
        "torchair_autofuse.twin": [
            f"{folder}/**/*.{suffix}" for folder in ("include", "runtime", "cann") for suffix in ("h", "cpp")
        ],
    },
    cmdclass={"build_py": BuildWithResources},
    install_requires=[
        "numpy>=1.26",
        "sympy>=1.13",
        "Jinja2>=3.1",
        "protobuf>=3.20,<8",
        "ml_dtypes>=0.4",
        "tomli>=2; python_version < '3.11'",
        "platformdirs>=4",
        "rich>=13",
    ],
    extras_require={"host": HOST, "test": TEST, "report": ["matplotlib>=3.8"]},
    entry_points={"console_scripts": ["torchair-autofuse=torchair_autofuse.cli:main"]},
)
