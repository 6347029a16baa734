"""What can be wrong with a definition or its folder."""

from __future__ import annotations


class OpDefError(ValueError):
    """A definition that breaks a rule: ``op_type``, ``field`` (a path such as ``input[0].dtype``) and ``problem``."""

    def __init__(self, op_type: str, field: str = "", problem: str = "") -> None:
        # TorchAir raises what leaves a compile again as type(error)(text)
        super().__init__(f"{op_type or 'fused op definition'}: {field}: {problem}" if field else op_type)
        self.op_type, self.field, self.problem = op_type, field, problem


class ArtefactError(RuntimeError):
    """An artefact folder that is missing, damaged or not safe to use."""
