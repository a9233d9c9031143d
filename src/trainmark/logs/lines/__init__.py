"""Lines of a log: from the bytes of a file, whatever carries them, to numbers in lines, many at once."""
