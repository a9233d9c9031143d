"""The features of a picture's ``tf.train.Example``, by the keys of ImageNet's usual TFRecord files."""

FIRST_LABEL = 1
"""The label of the first class in ImageNet's TFRecord files: 0 is kept for "background", and readers subtract 1."""

ENCODED = "image/encoded"
LABEL = "image/class/label"
