"""CANN's runtime library (libascendcl) by ctypes: the few calls that a probe needs, every return code checked.

Names, signatures and numbers are those of the public acl/acl.h and acl/acl_rt.h.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

from torchair_autofuse.probe.device import DeviceError, Unavailable

_HUGE_FIRST, _TO_DEVICE, _TO_HOST = 0, 1, 2
_SCHEDULE_MODE, _ALL_AT_ONCE = 1, 1
_MAGIC_OPTION = 2
_MAGIC = {False: 0x41415246, True: 0x43554245}  # vector cores alone; kernels with a part for the scheduler


class _Value(ctypes.Union):
    _fields_ = [("mode", ctypes.c_uint8), ("rsv", c_uint32 * 4)]


class _Attribute(ctypes.Structure):
    _fields_ = [("id", c_int), ("value", _Value)]


class _Config(ctypes.Structure):
    _fields_ = [("attrs", POINTER(_Attribute)), ("count", c_size_t)]


class _Option(ctypes.Structure):
    _fields_ = [("type", c_int), ("value", c_uint32 * 4)]


class _Options(ctypes.Structure):
    _fields_ = [("options", POINTER(_Option)), ("count", c_size_t)]


_ARGUMENTS: dict[str, list[Any]] = {
    "aclInit": [c_char_p],
    "aclrtGetDeviceCount": [POINTER(c_uint32)],
    "aclrtSetDevice": [c_int32],
    "aclrtCreateStream": [POINTER(c_void_p)],
    "aclrtMalloc": [POINTER(c_void_p), c_size_t, c_int],
    "aclrtFree": [c_void_p],
    "aclrtMemset": [c_void_p, c_size_t, c_int32, c_size_t],
    "aclrtMemcpy": [c_void_p, c_size_t, c_void_p, c_size_t, c_int],
    "aclrtBinaryLoadFromFile": [c_char_p, POINTER(_Options), POINTER(c_void_p)],
    "aclrtBinaryGetFunction": [c_void_p, c_char_p, POINTER(c_void_p)],
    "aclrtGetHardwareSyncAddr": [POINTER(c_void_p)],
    "aclrtLaunchKernelWithHostArgs": [
        c_void_p, c_uint32, c_void_p, POINTER(_Config), c_void_p, c_size_t, c_void_p, c_size_t,
    ],
    "aclrtSynchronizeStream": [c_void_p],
}  # fmt: skip


class Acl:
    """The library, initialised. Raises Unavailable for what fails before a launch."""

    def __init__(self, home: Path) -> None:
        beside = home / "lib64" / "libascendcl.so"
        try:
            self._lib = ctypes.CDLL(str(beside) if beside.is_file() else "libascendcl.so", mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise Unavailable(f"libascendcl does not load: {error}") from None
        self._call("aclInit", None)

    def device_count(self) -> int:
        """NPUs of this machine that the process may use."""
        count = c_uint32(0)
        self._call("aclrtGetDeviceCount", byref(count))
        return int(count.value)

    def open(self, index: int) -> str:
        """Takes a device and makes a stream; returns the name of its SoC."""
        self._call("aclrtSetDevice", index)
        self._stream = c_void_p()
        self._call("aclrtCreateStream", byref(self._stream))
        name = self._function("aclrtGetSocName", [], c_char_p)()
        return name.decode() if name else ""

    def allocate(self, nbytes: int) -> int:
        """Device memory of at least ``nbytes``."""
        address = c_void_p()
        self._call("aclrtMalloc", byref(address), max(32, nbytes), _HUGE_FIRST)
        return int(address.value or 0)

    def free(self, address: int) -> None:
        """Gives memory back."""
        self._call("aclrtFree", address)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Sets bytes of device memory."""
        self._call("aclrtMemset", address, nbytes, value, nbytes)

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copies to the device."""
        self._call("aclrtMemcpy", address, nbytes, host, nbytes, _TO_DEVICE)

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copies from the device, after a launch: a failure is a DeviceError."""
        self._call("aclrtMemcpy", host, nbytes, address, nbytes, _TO_HOST, launched=True)

    def load(self, binary: Path, entry: str, all_cores: bool | None) -> int:
        """The function of a device binary; when it does not load as it is, the runtime is told what cores it is for
        (not where ``all_cores`` is None)."""
        handle, function = c_void_p(), c_void_p()
        path = str(binary.absolute()).encode()
        try:
            self._call("aclrtBinaryLoadFromFile", path, None, byref(handle))
        except Unavailable:
            if all_cores is None:
                raise
            option = _Option(_MAGIC_OPTION, (c_uint32 * 4)(_MAGIC[all_cores]))
            self._call("aclrtBinaryLoadFromFile", path, byref(_Options(ctypes.pointer(option), 1)), byref(handle))
        self._call("aclrtBinaryGetFunction", handle, entry.encode(), byref(function))
        return int(function.value or 0)

    def meeting_place(self) -> int:
        """Where the blocks of a kernel with SyncAll meet; 0 where the runtime names none."""
        place = c_void_p()
        try:
            self._call("aclrtGetHardwareSyncAddr", byref(place))
        except Unavailable:
            return 0
        return int(place.value or 0)

    def launch(self, function: int, blocks: int, args: list[int], all_cores: bool) -> None:
        """Starts a kernel whose arguments are addresses. ``all_cores``: only when all blocks can run at once."""
        packed = (ctypes.c_uint64 * len(args))(*args)
        attribute = _Attribute(_SCHEDULE_MODE, _Value(mode=_ALL_AT_ONCE))
        config = byref(_Config(ctypes.pointer(attribute), 1)) if all_cores else None
        self._call(
            "aclrtLaunchKernelWithHostArgs", function, blocks, self._stream, config, packed, ctypes.sizeof(packed),
            None, 0, launched=True,
        )  # fmt: skip

    def wait(self) -> None:
        """Until all launches have ended. Raises DeviceError when one of them failed."""
        self._call("aclrtSynchronizeStream", self._stream, launched=True)

    def _function(self, name: str, arguments: list[Any], result: Any) -> Any:
        try:
            function = getattr(self._lib, name)
        except AttributeError:
            raise Unavailable(f"libascendcl has no {name}") from None
        function.argtypes, function.restype = arguments, result
        return function

    def _call(self, name: str, *arguments: Any, launched: bool = False) -> None:
        status = int(self._function(name, _ARGUMENTS[name], c_int)(*arguments))
        if status == 0:
            return
        kind = DeviceError if launched else Unavailable
        raise kind(f"{'device error' if launched else 'error'} {status} of {name}{self._recent()}")

    def _recent(self) -> str:
        """What the library says about its last error, on one line."""
        try:
            text = self._function("aclGetRecentErrMsg", [], c_char_p)()
        except Unavailable:
            return ""
        words = " ".join(text.decode(errors="replace").split()) if text else ""
        return f": {words[:500]}" if words else ""
