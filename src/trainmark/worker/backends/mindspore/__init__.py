"""The backend of MindSpore, 2.4 or later, on CPUs."""

import os

# oneDNN in MindSpore's wheel takes a reference kernel for its convolutions where it may use AVX-512. It reads the
# variable when it is loaded.
os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX2")
# Without this it warns of each attempt to connect, and of its own deprecated parts, between the run's lines.
os.environ.setdefault("GLOG_v", "3")

from .backend import stopped_by

__all__ = ["stopped_by"]
