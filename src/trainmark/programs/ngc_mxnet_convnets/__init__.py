"""NGC MXNet ConvNets."""
