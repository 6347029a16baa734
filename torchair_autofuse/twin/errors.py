"""What can go wrong with the twin; each error carries its message code.

All can be made of one text: TorchAir raises what leaves a compile again as ``type(error)(text)``.
"""

from __future__ import annotations


class TwinError(RuntimeError):
    """Base of the twin's errors. ``code`` is one of AF404, AF405, AF406."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


class NoCompiler(TwinError):
    """No usable C++17 compiler (AF404)."""

    def __init__(self, message: str) -> None:
        super().__init__("AF404", message)


class KernelBuildError(TwinError):
    """The compiler refused a kernel (AF405). ``errors`` holds its first messages."""

    def __init__(self, message: str, errors: str = "") -> None:
        super().__init__("AF405", f"{message}\n{errors}" if errors else message)
        self.errors = errors


class HostRuleError(TwinError):
    """Host code broke a rule of CANN's op registration or tiling (AF406)."""

    def __init__(self, message: str) -> None:
        super().__init__("AF406", message)


class TwinViolation(TwinError):
    """A kernel broke a rule of the chip (AF406). ``rule`` is an id of :mod:`torchair_autofuse.twin.rules`."""

    def __init__(self, rule: str, message: str = "", *, block: int | None = None, where: str | None = None) -> None:
        text = f"rule {rule}: {message}" if message else rule
        if where is not None:
            text += f" [{where}]"
        if block is not None:
            text += f" (block {block})"
        super().__init__("AF406", text)
        self.rule = rule
        self.message = message
        self.block = block
        self.where = where
