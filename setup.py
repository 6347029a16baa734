"""Package metadata and extras; see README.md."""

from setuptools import find_packages, setup

HOST = ["torch==2.13.0", "torch_npu==2.13.0", "pyyaml", "packaging"]
TEST = [
    "pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "ruff>=0.9", "mypy>=1.14", "types-protobuf",
    "transformers>=4.57", "accelerate>=1.0", "diffusers>=0.35",
]  # fmt: skip

setup(
    name="torchair_autofuse",
    version="0.1.0",
    description="Fuses small vector ops in TorchAir's GE graphs into generated Ascend C kernels",
    python_requires=">=3.10",
    packages=find_packages(include=["torchair_autofuse", "torchair_autofuse.*"]),
    package_data={"torchair_autofuse.twin": ["include/*.h", "include/twin/*.h", "runtime/*.h", "runtime/*.cpp"]},
    install_requires=[
        "numpy>=1.26",
        "sympy>=1.13",
        "Jinja2>=3.1",
        "protobuf>=3.20,<8",
        "ml_dtypes>=0.4",
        "tomli>=2; python_version < '3.11'",
        "filelock>=3.13",
        "platformdirs>=4",
        "rich>=13",
    ],
    extras_require={"host": HOST, "test": TEST, "report": ["matplotlib>=3.8"]},
    entry_points={"console_scripts": ["torchair-autofuse=torchair_autofuse.cli:main"]},
)
