"""The cache on disk, as far as it is the same for everything that is kept in it: locks, safety, use, size.

``<cache>/ops/<op_type>/`` artefact folders (opdef.registry), ``<cache>/variants/<op_type>@<soc>-<generator>/`` the same
op for another chip or by another release, ``<cache>/twin/`` what was compiled for the CPU twin, ``<cache>/jit/`` for
the device, ``<cache>/package/<chip series>/`` op packages, ``<cache>/.leases/`` what live processes use. Nothing here
knows what an op or a kernel is.
"""
