"""One user, from her example to the end of a study: python take_part.py URL ENROLMENT-TOKEN [STUDY]"""

import asyncio
import sys

from askance_client import Server, User, Wallet
from askance_protocol import Example, RealField, Schema


async def main(url: str, token: str, *studies: str) -> None:
    schema = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=1000),))
    wallet = Wallet.open("anna.wallet", cap=1_000_000)
    wallet.declare(schema)
    anna = User(Example.of(schema, {"value": 0.25}), wallet)
    async with Server(url) as server:
        print(await anna.enrol(server, token))
        for study in studies:
            print(await anna.follow(server, study))


asyncio.run(main(*sys.argv[1:]))
