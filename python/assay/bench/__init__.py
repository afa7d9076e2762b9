"""One harness behind every performance claim."""

from assay.bench.harness.case import Case as Case, Settings as Settings, Suite as Suite
from assay.bench.harness.comparison import Comparison as Comparison, compare as compare
from assay.bench.harness.result import Figure as Figure, Result as Result, load as load
from assay.bench.harness.session import run as run, settings as settings
from assay.bench.suites.registry import SUITES as SUITES, suite as suite
