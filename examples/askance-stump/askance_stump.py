"""A decision stump by statistical queries: the one bit of x that agrees with the label most often."""

from askance_protocol.parameters import only, whole
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Bit, Label, Xor
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.strategies import Ask, Asking, Hypothesis, Parameters, Strategy


def schema(parameters: Parameters) -> Schema:
    """An x of d bits, and a label. Refuses parameters of other names."""
    only(parameters, "d")
    return Schema(fields=(BitsField(name="x", width=whole(parameters, "d", 1, 64)), LabelField(name="y")))


def run(parameters: Parameters) -> Asking:
    """One round: how often does each bit disagree with the label? The least of the answers wins."""
    d = whole(parameters, "d", 1, 64)
    disagree = [BooleanQuery(test=Xor(of=(Bit(field="x", index=i), Label(sign=1)))) for i in range(d)]
    answers = yield [Ask(query, tolerance=0.05) for query in disagree]
    best = min(range(d), key=lambda i: float(answers[i]))
    return Hypothesis(f"y = +1 where x_{best} = 1", {"bit": best})


STUMP = Strategy(
    name="stump",
    summary="The one bit that tells the label best",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
)
