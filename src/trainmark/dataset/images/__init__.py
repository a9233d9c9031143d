"""Image data sets: folders of pictures, and the same pictures as TFRecord or RecordIO files."""
