"""What every room stands on and no reader of images needs to know.

Owns: axes, small constants, caches with a bound, whole files, compilers of kernels, tapes of programs, and other libraries' names.
Must not: know a transform or a picture.
Read next: ``constants.py``.
"""
