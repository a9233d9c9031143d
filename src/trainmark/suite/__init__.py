"""What to measure: suites, their cases and protocols, read from YAML and checked to the line."""

from trainmark.suite.case import AXES, MAX_BATCH, Case, Device, Layout, Option, Precision, Word
from trainmark.suite.document import Document, read_document
from trainmark.suite.loading import MAX_CASES, dump_suite, load_suite, parse_suite
from trainmark.suite.model import EACH_ITS_OWN, Dataset, Limits, MakeImages, Suite
from trainmark.suite.naming import NamingScheme, log_name
from trainmark.suite.outcome import Outcome
from trainmark.suite.protocol import Protocol, ProtocolName
from trainmark.suite.selection import select

__all__ = [
    "AXES",
    "EACH_ITS_OWN",
    "MAX_BATCH",
    "MAX_CASES",
    "Case",
    "Dataset",
    "Device",
    "Document",
    "Layout",
    "Limits",
    "MakeImages",
    "NamingScheme",
    "Option",
    "Outcome",
    "Precision",
    "Protocol",
    "ProtocolName",
    "Suite",
    "Word",
    "dump_suite",
    "load_suite",
    "log_name",
    "parse_suite",
    "read_document",
    "select",
]
