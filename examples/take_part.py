"""usage: python take_part.py URL ENROLMENT-TOKEN [STUDY …]

One user, from her example to the end of each study. The token is in enrolment.token of the server's data directory; a
study is named by its id, which `askance study show` prints. Without one she enrols, and is there when one is opened.
"""

import asyncio
import sys

from askance_client import Identity, Server, User, Wallet
from askance_protocol import AskanceError, Code, Example, RealField, Schema

EXIT_CODES = {Code.UNREACHABLE: 3, Code.VERSION_MISMATCH: 4, Code.OVER_BUDGET: 5}


async def main(url: str, token: str, *studies: str) -> None:
    schema = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=1000),))
    async with Server(url) as server:
        await server.check()
        wallet = Wallet.open("anna.wallet", cap=1_000_000)
        wallet.declare(schema)
        anna = User(Example.of(schema, {"value": 0.25}), wallet)
        identity = await anna.enrol(server, token)
        print(identity)
        for study in studies if isinstance(identity, Identity) else ():
            print(f"follows study {study[:8]} until it ends")
            print(await anna.follow(server, study, tell=print))


if len(sys.argv) < 3 or "--help" in sys.argv:
    print(__doc__, file=sys.stdout if "--help" in sys.argv else sys.stderr)
    sys.exit(0 if "--help" in sys.argv else 2)
try:
    asyncio.run(main(*sys.argv[1:]))
except AskanceError as error:
    print(f"take_part: {error}", file=sys.stderr)
    sys.exit(EXIT_CODES.get(error.code, 2))
except KeyboardInterrupt:
    print("take_part: stopped; the same call goes on with what is in anna.wallet", file=sys.stderr)
    sys.exit(130)
