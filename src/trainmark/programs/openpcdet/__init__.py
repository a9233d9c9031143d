"""OpenPCDet."""
