"""Log formats of training programs, each in the file that is called like it, or as its name begins.

``NAME.yaml`` describes a format as data, or several of a family, as documents with a ``name``. Where a pattern cannot
say it, a module (``-`` in its name written ``_``) has ``FORMAT`` and ``sample`` (a synthetic log). There is no other
list: files are discovered here and in the ``programs/log_formats`` of extensions, and loaded on first use.
"""

from trainmark.files import extension_folders

__path__ = [*__path__, *map(str, extension_folders("programs/log_formats"))]
