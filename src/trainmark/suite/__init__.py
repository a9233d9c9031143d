"""What to measure: suites, their cases and protocols, read from YAML and checked to the line."""

from trainmark.suite.document import Document, read_document
from trainmark.suite.loading import MAX_CASES, dump_suite, load_suite, parse_suite
from trainmark.suite.naming import log_name
from trainmark.suite.outcome import Outcome
from trainmark.suite.selection import select
from trainmark.tasks import TASKS, case_of, task_of
from trainmark.tasks.image_classification import Layout
from trainmark.words.case import MAX_BATCH, Case, Device, Option, Precision, Word, axes_of
from trainmark.words.suite import EACH_ITS_OWN, Dataset, Limits, NamingScheme, Protocol, ProtocolName, Suite

__all__ = [
    "EACH_ITS_OWN",
    "MAX_BATCH",
    "MAX_CASES",
    "TASKS",
    "Case",
    "Dataset",
    "Device",
    "Document",
    "Layout",
    "Limits",
    "NamingScheme",
    "Option",
    "Outcome",
    "Precision",
    "Protocol",
    "ProtocolName",
    "Suite",
    "Word",
    "axes_of",
    "case_of",
    "dump_suite",
    "load_suite",
    "log_name",
    "parse_suite",
    "read_document",
    "select",
    "task_of",
]
