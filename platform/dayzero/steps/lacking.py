"""Which operators other models lack on a platform: what bridging one of them would unlock."""

from collections import Counter
from collections.abc import Mapping

from dayzero import codec
from dayzero.domain.operators import CoverageReport
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Catalog
from dayzero.ports.ledger import Ledger


def lacking(catalog: Catalog, ledger: Ledger, platform: str, model: str) -> Mapping[str, int]:
    """Operators with the number of models other than this one whose newest coverage on the platform lacks them.

    A coverage that an older version of dayzero wrote in another shape counts for nothing.
    """
    newest: dict[str, CoverageReport] = {}
    for adaptation in catalog.adaptations():
        if adaptation.platform != platform or adaptation.model == model or adaptation.model in newest:
            continue
        documents = [one.document for one in ledger.linked_results(adaptation.id) if one.key.stage == "coverage"]
        try:
            if documents:
                newest[adaptation.model] = codec.load(CoverageReport, documents[-1])
        except BadInputError:
            continue
    return Counter(gap.operator for report in newest.values() for gap in report.gaps)
