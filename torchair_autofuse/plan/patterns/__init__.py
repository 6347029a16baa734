"""Named patterns: the clusters that people talk about, as data; how they are found; what they are used for.

The general engine fuses, with or without a name for what it fused. Patterns name fused ops in reports, and
GF_AUTOFUSION_DISABLE switches clusters off by name. Their language: docs/patterns.md.
"""

from torchair_autofuse.plan.patterns.library import Pattern, patterns
from torchair_autofuse.plan.patterns.match import Match, find
from torchair_autofuse.plan.patterns.naming import barred, name_ops, outermost
from torchair_autofuse.plan.patterns.parse import PatternError

__all__ = ["Match", "Pattern", "PatternError", "barred", "find", "name_ops", "outermost", "patterns"]
