"""The package route: one custom-op package for CANN with every recorded op (docs/deploy-package.md)."""
