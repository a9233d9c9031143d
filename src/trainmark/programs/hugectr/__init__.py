"""HugeCTR's Python interface (``Model.fit``), as DLPerf's Wide & Deep calls it."""
