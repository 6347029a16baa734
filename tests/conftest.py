"""Test-wide set-up: torchair_autofuse goes first, so that torch does not try to load the NPU backend without CANN."""

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.setdefault("TORCHAIR_AUTOFUSE_STRICT", "1")
