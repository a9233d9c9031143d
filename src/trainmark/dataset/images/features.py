"""The feature keys of a picture's ``tf.train.Example`` in ImageNet's usual TFRecord files."""

FIRST_LABEL = 1
"""The label of the first class in ImageNet's TFRecord files: 0 is reserved for "background", and readers subtract 1."""

ENCODED = "image/encoded"
LABEL = "image/class/label"
