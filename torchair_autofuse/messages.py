"""Every message code: what the user sees, and the record a legality check returns. One page each in docs/codes/."""

from __future__ import annotations

from dataclasses import dataclass

# code -> short title. AF1xx options, AF2xx refusals to fuse, AF3xx plugin, AF4xx host executor and twin,
# AF5xx delivery to a device.
CODES: dict[str, str] = {
    "AF101": "unknown key in a flag variable",
    "AF102": "malformed item in a flag variable",
    "AF103": "bad value of a flag",
    "AF104": "unknown pass name",
    "AF105": "pass enabled and disabled at once",
    "AF106": "flag accepted but without effect in this release",
    "AF107": "unreadable skip list",
    "AF108": "unusable cost file",
    "AF201": "op type not fusible",
    "AF202": "dtype not supported by the op or the chip",
    "AF203": "shape or dtype unknown",
    "AF204": "dims not known to be equal or one",
    "AF205": "reshape does not factor",
    "AF206": "merge would close a cycle",
    "AF207": "different stream, scope or user label",
    "AF208": "control edge or side effect",
    "AF209": "write may alias a read",
    "AF210": "incompatible iteration domains",
    "AF211": "value reached through two index maps",
    "AF212": "does not fit in UB",
    "AF213": "size limit reached",
    "AF214": "op kept by the user",
    "AF215": "pass not enabled",
    "AF216": "no profit",
    "AF217": "symbol without a source among the op's inputs",
    "AF218": "attribute or operand form not supported",
    "AF219": "left to GE's own fusion",
    "AF220": "stored, not computed again",
    "AF221": "fusion fuel used up",
    "AF222": "computed on the host",
    "AF223": "bounds of a window not proved",
    "AF224": "live memory would grow",
    "AF301": "fusion failed and was rolled back",
    "AF302": "TorchAir differs from what the plugin knows",
    "AF303": "mode without a GE graph",
    "AF305": "GE's own AutoFuse is on too",
    "AF306": "chip not supported",
    "AF401": "op not known to the host executor",
    "AF402": "native TorchAir call not modelled on the host",
    "AF403": "torch was imported before torchair_autofuse",
    "AF404": "no C++ compiler",
    "AF405": "kernel did not build",
    "AF406": "kernel broke a rule on the twin",
    "AF501": "fused op not in the installed package",
    "AF502": "op package not usable",
    "AF503": "fused op did not build for the device",
    "AF504": "JIT runtime not usable",
    "AF505": "route not possible with this CANN",
    "AF506": "damaged cache entry made again",
}

RULES: dict[str, str] = {
    "edge": "along data edges",
    "shared": "parts that read one tensor",
    "beside": "small kernels side by side",
    "again": "values computed again",
}
"""What puts nodes into one fused op; docs/user-guide.md says how each rule decides."""


class AutofuseWarning(RuntimeWarning):
    """A message of this package; its text starts with a code explained in docs/codes/."""


@dataclass(frozen=True)
class Reason:
    """Why something is refused or warned about: a stable code and one sentence that names the thing."""

    code: str
    text: str

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown message code {self.code!r}")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def counted(count: int, noun: str) -> str:
    """``1 op``, ``2 ops``: a number and its noun, which takes an s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
