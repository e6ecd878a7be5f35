"""Silly calls of every command, each with its exit code and words that its one line has to have.

A call is as it is typed in a shell. What stands in braces is prepared by `place` of the test: {server} is a server that
has no study, {closed} one that is not there, {other} a web server that is something else, {own} an address of this
machine whose last port is taken, {operator} and {enrolment} the files of the server's tokens, {user} a file with the
token of a user; {operated}, {tokens} and {entering} are the options that name these, {mine} those with which a person
takes part.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from askance_lab.commands.shared.exit_codes import Exit

Row: TypeAlias = tuple[str, Exit, tuple[str, ...]]

USAGE, AWAY = Exit.USAGE, Exit.UNREACHABLE


def rows(calls: str, code: Exit = USAGE) -> list[Row]:
    """A row for each line `call → words | words`."""
    pairs = (line.split(" → ") for line in calls.splitlines() if line)
    return [(call.strip(), code, tuple(word.strip() for word in words.split(" | "))) for call, words in pairs]


NAMES = """
sttudy → sttudy | did you mean | study
serv → did you mean | serve
nothing-like-it → no such command | askance --help
study lst → lst | did you mean | list
users cont → did you mean | count
wallet sow → did you mean | show
channel descrbe → did you mean | describe
--versoin → --versoin | did you mean --version
plan mean --epslion 1 → --epslion | did you mean --epsilon
serve --capp 1 → --capp | did you mean --cap
study create mean --titel x → --titel | did you mean --title
run mean --users → --users | requires an argument
plan mean more words → more words | askance plan --help
plan → strategy | is missing
ask → QUESTION | is missing
ask Tea? → --choices | is missing
ask Tea? --choices yes → --choices | yes,no
ask Tea? --scale ten → --scale | 1-10
ask Tea? --choices yes,no --scale 1-10 → exclude each other
ask Tea? --choices yes,no --until soon → --until | 30min
ask Tea? --choices yes,no --certificate room.pem → --certificate | --key | both, or neither
ask Tea? --choices yes,no --certificate none.pem --key none.pem → none.pem | cannot be read | PEM
serve --key none.pem → --key | --certificate | both, or neither
serve --certificate none.pem --key none.pem → none.pem | cannot be read | PEM
ask --file nowhere.toml → nowhere.toml | cannot be read
restore → BACKUP | is missing
restore nowhere --chek → --chek | did you mean --check
page --outt take-part.html → --outt | did you mean --out
page take-part.html → take-part.html | askance page --help
run → strategy | is missing
fleet → --users | is missing
load → --users | is missing
curator → name | is missing
audit → --epsilon | is missing
audit --epsilon 1 → --kind | is missing | --float
channel describe --kind binary → --epsilon | is missing
channel compare --epsilon 1 → --cells | is missing
channel sample --kind binary --epsilon 1 → --input | is missing
converse --epsilon 1 → --kind | is missing
schema → FILE | is missing
client → --data | is missing
users enrol → N|FIRST-LAST | is missing
users invite 3 → --out | is missing
users codes → N | is missing
users renew → N|FIRST-LAST | is missing
study create → strategy | is missing
study close → STUDY | is missing
study cancel → STUDY | is missing
study export abcd → --out | is missing
study verify → PATH | is missing
wallet show → PATH | is missing
wallet heads → PATH | is missing
survey → --ask | is missing
plan maen → 'maen' | did you mean mean
run masked-partiy --users 10 → 'masked-partiy' | did you mean masked-parity
study create histogramm {operated} → histogramm | did you mean histogram
curator generic-pariti → generic-pariti | did you mean generic-parity
theory masked-parrity → masked-parrity | did you mean masked-parity
theory parity --set dd=3 → dd | --set | d
theory --set d=3 → --set | needs a theorem
landscape --classes POINTS → POINTS | --classes | POINT
separation --learner masked-partiy --d 4 → masked-partiy | did you mean masked-parity
run mean --users 10 --oracle lokal → --oracle | did you mean local
run mean --users 10 --engine dusk → --engine | did you mean dask
run mean --users 10 --population hart → --population | did you mean heart
plan mean --population nobody → --population | 'nobody'
channel describe --kind binari --epsilon 1 → --kind | did you mean binary
audit --kind laplas --epsilon 1 → --kind | did you mean laplace
converse --kind karry --epsilon 1 → --kind | did you mean kary
converse --kind binary --epsilon 1 --lie sometimes → --lie | up-down
"""

NUMBERS = """
plan mean --epsilon 0 → --epsilon | 0 | smallest
plan mean --epsilon -1 → --epsilon | '-1' | write
plan mean --epsilon nan → --epsilon | 'nan'
plan mean --epsilon inf → --epsilon | 'inf'
plan mean --epsilon 1e400 → --epsilon | 1e400 is out of range | 1000000000
plan mean --epsilon 1e-400 → --epsilon | below
plan mean --epsilon 1e9999 → --epsilon | '1e9999'
plan mean --epsilon 1,,5 → --epsilon | ''
plan mean --epsilon ½ → --epsilon | '½'
plan mean --epsilon 1/2 → --epsilon | '1/2'
plan mean --epsilon '' → --epsilon | ''
plan mean --epsilon ' 1' → --epsilon | ' 1'
plan mean --epsilon one → --epsilon | 'one'
plan mean --epsilon 0.0000001 → --epsilon | below one micro-ε
plan mean --epsilon {long} → --epsilon | …
plan mean --epsilon 1000000 → --epsilon | 1000000 is more | 23.567004
plan mean --epsilon 23.6 → --epsilon | 23.6 is more | 23.567004
run mean --users 10 --epsilon 0 → --epsilon
run mean --users 10 --epsilon nan → --epsilon | 'nan'
run mean --users 10 --epsilon 1e10 → --epsilon | 1e10 is out of range
run mean --users 10 --epsilon 23.6 → --epsilon | 23.6 is more
survey --ask share(country) --users 10 --epsilon -1 → --epsilon
oracles --epsilon 0 → --epsilon
oracles --epsilon none → --epsilon
separation --epsilon 0 --d 4 → --epsilon
separation --epsilon x --d 4 → --epsilon | 'x'
landscape --epsilon 0 → --epsilon
landscape --epsilon abc → --epsilon
curator parity --epsilon 0 → --epsilon
curator parity --epsilon 1e20 → --epsilon
audit --kind binary --epsilon 0 → --epsilon
audit --float --epsilon nan → --epsilon
audit --kind binary --epsilon 1 --claim 0 → --claim
audit --kind binary --epsilon 1 --claim much → --claim | 'much'
channel describe --kind binary --epsilon 0 → --epsilon
channel describe --kind binary --epsilon 1e3 → --epsilon
channel sample --kind binary --epsilon inf --input 0 --n 1 → --epsilon
channel compare --cells 4 --epsilon 0 → --epsilon
converse --kind binary --epsilon 0 → --epsilon
demo --epsilon 0 → --epsilon
demo --epsilon x → --epsilon
demo --epsilon 50 → --epsilon
load --users 1 --epsilon 0 --server {server} {tokens} → --epsilon
load --users 1 --batch 1 --epsilon ε --server {server} {tokens} → --epsilon
study create mean --epsilon 0 {operated} → --epsilon
study create mean --epsilon 1e400 {operated} → --epsilon
study create mean --epsilon 23.6 {operated} → --epsilon | 23.6 is more
fleet --users 1 --cap 0 → --cap
fleet --users 1 --cap nan → --cap | 'nan'
client --data me.csv --cap 0 --yes --study {digest} → --cap
client --data me.csv --cap 1_000_000 --yes --study {digest} → --cap | '1_000_000'
serve --cap 0 → --cap
serve --cap -1 → --cap
serve --cap 1e400 → --cap
serve --cap ½ → --cap
plan mean --d 0 → --d
plan mean --d -1 → --d
plan mean --d 3 → --d
plan masked-parity --d 0 → --d
plan masked-parity --d 3 → --d | power of two
plan masked-parity --d 1e3 → --d | integer
plan masked-parity --d 8.5 → --d | integer
plan masked-parity --d 99999999999 → --d
plan masked-parity → --d
run masked-parity --d 7 --users 100 → --d | power of two
run parity --users 100 → --d
separation --d 3 → --d
separation --d 0 → --d
separation --d x → --d | 'x'
separation --d 4,,x → --d
separation --d '' → --d
separation --d 4 --users 0 → --users
separation --d 4 --users 1e6 → --users
separation --d 4 --users 100000000000000000000 → --users | 100000000000000
run mean --users 100000000000000000000 → --users | 100000000000000
run mean --users 10 --epsilon 0.12345678 → --epsilon | 0.12345678 has more than six decimals | write "0.123456"
channel describe --kind binary --epsilon 0.12345678 → --epsilon | six decimals
serve --cap 1.0000001 → --cap | six decimals
separation --d 4 --seeds 0 → --seeds
separation --d 4 --workers 0 → --workers
separation --d 4 --workers 100000 → --workers
landscape --d abc → --d
landscape --d 3 → --d
landscape --seeds 1 → --seeds
landscape --alpha 2 → --alpha
landscape --alpha nan → --alpha
landscape --beta 0 → --beta
landscape --delta 0 → --delta
landscape --delta 1,5 → --delta | '1,5'
landscape --delta nan → --delta
landscape --delta 1/0 → --delta
curator parity --alpha 7 → --alpha
curator parity --beta -1 → --beta
curator parity --d 0 → --d
curator parity --users 0 → --users
curator parity --users 99999999999999999999 → --users
curator parity --delta x → --delta | 'x'
curator parity --seed -1 → --seed
refutation --d 3 → --d
refutation --d 0 → --d
refutation --d 1024 → --d
refutation --d x → --d
oracles --users 0 → --users
oracles --seed -1 → --seed
demo --users 1 → --users
demo --d 7 → --d | power of two
demo --d 128 → --d
demo --clients 0 → --clients
demo --seed -3 → --seed
plan mean --alpha 2 → --alpha
plan conjunction --d 8 --alpha 0 → --alpha
plan conjunction --d 8 --alpha nan → --alpha
plan conjunction --d 8 --alpha 1e-400 → --alpha
plan conjunction --d 8 --beta 0 → --beta
plan conjunction --d 8 --beta 1 → --beta
plan conjunction --d 8 --beta x → --beta | 0.05
plan mean --set tolerance=0 → --tolerance
plan mean --set tolerance=nan → --tolerance
plan mean --set tolerance → --set | NAME=VALUE
plan mean --set =3 → --set | NAME=VALUE
plan mean --set toleranse=0.1 → --set toleranse
plan histogram --set cells=0 → --set cells
plan histogram --set cells=many → --set cells
plan histogram --set cells=1e9 → --set cells
plan histogram --set cells=99999999 → --set cells
plan mean --users 0 → --users
plan mean --width 0.1 → --width
plan mean --ask share(country) → --ask
plan survey --ask share(country) --width 0 → --width
plan survey --ask share(country) --width nan → --width
plan survey --ask share(country) --width x → --width
plan survey --ask share(country) --users 0 → --users
plan survey → --ask
plan survey --ask share( → --ask
plan survey --ask nonsense → --ask
plan survey --ask share(nobody) → --ask | nobody
plan survey --ask '' → --ask
survey --ask 'mean(minutes, 9, 1)' --users 10 → --ask
survey --ask share(country) → --users
survey --ask share(country) --users 0 → --users
survey --ask share(country) --users 10 --width -1 → --width
run mean → --users
run mean --users 0 → --users
run mean --users ten → --users | integer
run mean --users 10 --beta 2 → --beta
run mean --users 10 --tolerance -1 → --tolerance
run mean --users 10 --tolerance nan → --tolerance
run mean --users 10 --eta 0.7 → --eta
run mean --users 10 --eta nan → --eta
run mean --users 10 --eta ½ → --eta
run mean --users 10 --simulated-reports 0 → --simulated-reports
run mean --users 10 --eta-most 0.1 → --eta-most | no label
run conjunction --d 4 --users 10 --eta-most 0.5 → --eta-most | 0.49
run masked-parity --d 4 --users 10 --eta-most 0.1 → --eta-most | choose another strategy
run mean --users 10 --seed -1 → --seed
run mean --users 10 --workers 0 → --workers
audit --kind binary --epsilon 1 --samples 0 → --samples
audit --kind binary --epsilon 1 --samples 100 --failure 0 → --failure
audit --kind binary --epsilon 1 --samples 100 --failure nan → --failure
audit --kind binary --epsilon 1 --samples 100 --failure 2 → --failure
audit --kind binary --epsilon 1 --inputs 0 → --inputs
audit --kind binary --epsilon 1 --inputs 0,0 → --inputs
audit --kind binary --epsilon 1 --inputs 0,9 --samples 100 → --inputs
audit --kind kary --epsilon 1 --k 1 → --k
channel describe --kind kary --epsilon 1 --k 0 → --k
channel describe --kind kary --epsilon 1 --k -3 → --k
channel describe --kind kary --epsilon 1 --k 99999999 → --k
channel describe --kind binary --epsilon 1 --k 3 → --k
channel describe --kind geometric --epsilon 1 --range 0 → --range
channel describe --kind geometric --epsilon 1 --range 99999999999 → --range
channel describe --kind geometric --epsilon 1 --set range=x → --set range
channel sample --kind binary --epsilon 1 --input 2 --n 1 → --input
channel sample --kind binary --epsilon 1 --input -1 --n 1 → --input
channel sample --kind binary --epsilon 1 --input 0 --n -1 → --n
channel compare --cells 1 --epsilon 1 → --cells
channel compare --cells 65537 --epsilon 1 → --cells
channel compare --cells 4 --epsilon 1 --tolerance 1 → --tolerance
channel compare --cells 4 --epsilon 1 --tolerance nan → --tolerance
channel compare --cells 4 --epsilon 1 --beta 0 → --beta
converse --kind binary --epsilon 1 --beta 0 → --beta
converse --kind binary --epsilon 1 --beta nan → --beta
converse --kind binary --epsilon 1 --t 0 → --t
converse --kind binary --epsilon 1 --shares 1 → --shares
converse --kind binary --epsilon 1 --shares nan,1 → --shares
converse --kind binary --epsilon 1 --reports -1 → --reports
converse --kind binary --epsilon 1 --seed -1 → --seed
theory parity --set d=0 → --set d
theory parity --set d=x → --set d
theory parity --set d=1e400 → larger than this machine can hold
theory parity --set d → --set | NAME=VALUE
theory parity --set alpha=2 → --set alpha
fleet --users 0 → --users
fleet --users 1 --share 2/1 → --share
fleet --users 1 --share half → --share
fleet --users 1 --share 0/0 → --share
fleet --users 1 --rate -1 → --rate
fleet --users 1 --rate nan → --rate
fleet --users 1 --wait -1 → --wait
fleet --users 1 --wait nan → --wait
fleet --users 1 --processes 0 → --processes
fleet --users 1 --connections 100000 → --connections
fleet --users 1 --studies 0 → --studies
load --users 0 → --users
load --users 1 --batch -1 → --batch
load --users 1 --batch 1 --rate 3 → --rate
users enrol 0 → users
users enrol -- -1 → users
users enrol 9-3 → users
users enrol ten → users | 'ten'
users enrol 9999999999999999 → users
users invite 0 --out t → N
users codes 0 --out t → N
users codes 3 --for soon --out t → --for | 'soon'
users invite 1 --for 0s --out t → --for
users invite 1 --for soon --out t → --for | 'soon'
users invite 1 --for 1.5h --out t → --for
users renew 0-99999 → users
users renew x → users
study create mean --deadline never → --deadline | 'never'
study create mean --deadline 0 → --deadline
study create mean --users some {operated} → --users
study create mean --tolerance x {operated} → --tolerance
study create mean --beta 7 {operated} → --beta
study create histogram --set cells=0 {operated} → --set cells
study create masked-parity --d 3 {operated} → --d
study create mean --set what=3 {operated} → --set what
health --timeout 0 → --timeout
health --timeout nan → --timeout
health --timeout soon → --timeout
client --data me.csv --row 0 → --row
client --data me.csv --wait nan --cap 1 --yes --study {digest} → --wait
"""

TOGETHER = """
channel sample --kind binary --epsilon 1 --input 0 --n 1 --raw --json → --raw, --json
audit --float --epsilon 1 --kind binary → --kind | --float
audit --float --epsilon 1 --k 3 → --k | --float
run mean --users 10 --data good.csv --population bits → --population | --data
run mean --users 10 --oracle exact --server {server} → --server | --oracle
run mean --users 10 --oracle exact --workers 2 → --workers | --oracle
run mean --users 10 --cluster tcp://127.0.0.1:1 → --cluster | --engine dask
run mean --users 10 --oracle exact --keep it → --keep | --oracle local
plan mean --workers 2 → --workers | --measure
run mean --users 10 --server {server} → --server | --operator-token
run mean --users 10 --boolean --oracle http → --boolean
run mean --users 10 --label ill → --label | --data
run mean --users 10 --low 3 → --low | --data
run mean --users 10 --schema good.json → --schema | --data
run mean --users 10 --data good.csv --eta 0.1 --oracle exact → --eta | --oracle
run mean --users 10 --data good.csv --low 5 --high 2 → --low | --high
fleet --users 1 --schema good.json → --schema | --data
fleet --users 1 --data good.csv --missing skip → --missing
client --data me.csv --missing skip --cap 1 --yes --study {digest} → --missing
client --data me.csv --cap 1 --study {digest} → consent | --yes
client --data me.csv --yes --study {digest} → --cap
client --data me.csv --cap 1 --yes --study abc → --study
study create mean --gateway-token g --server {server} → --gateway-token | --simulated
study create mean --watch --json → --watch, --json
study create mean --missing skip → --missing
study create mean --low 1 → --low | --schema
study cancel abcd {operated} → cancel | --yes
users enrol 3 --out - --json {operated} → --out - | --json
wallet heads {wallet} --server {server} → --server | --compare
wallet heads {wallet} --compare 'a b' → --compare
wallet heads {wallet} --compare '{digest} 3 {digest}' → --compare
curator parity --label ill → --label | --data
curator parity --data good.csv --users 3 → --users
landscape --classes POINT --d 1 → --classes, --d
load --users 1 --report figures.pdf → --report | .html
schema good.csv --low 9 --high 1 → --low | --high
"""

FILES = """
schema nowhere.csv → nowhere.csv | not
schema folder → folder
schema empty.csv → empty.csv
schema header.csv → header.csv
schema binary.csv → binary.csv
schema latin.csv → latin.csv | UTF-8
schema ragged.csv → ragged.csv
schema huge.csv → huge.csv
schema good.txt → good.txt
schema loop.csv → loop.csv
schema good.csv/x.csv → good.csv/x.csv
schema {long}.csv → name
schema broken.parquet → broken.parquet
schema broken.npy → broken.npy
schema good.csv --label nothing → 'nothing' | first row
schema good.csv --column nothing → 'nothing' | first row
schema good.csv --out /proc/x → /proc/x
schema good.csv --out folder → folder
schema good.csv --out file/x → file/x
page --out nowhere/x → nowhere/x
backup → askance-data | is not there | --database DIR
backup --database folder → folder/ledger.sqlite | is not there
backup --database good.csv → good.csv/ledger.sqlite | is not there
restore nowhere → nowhere | is no backup | manifest.json
restore folder --check → folder | is no backup
restore good.csv → good.csv | is no backup
upgrade → askance-data | is not there | --database DIR
upgrade --database folder --check → folder/ledger.sqlite | is not there
upgrade --wallet nowhere → nowhere | is not there
upgrade --wallet good.csv → good.csv
schema good.csv --out nowhere/x → nowhere/x
schema good.csv --out /dev/full → /dev/full | space
run mean --data nowhere.csv → nowhere.csv
run mean --data folder → folder
run mean --data empty.csv → empty.csv
run mean --data binary.csv → binary.csv
run mean --data latin.csv → latin.csv
run mean --data good.csv --column nothing → 'nothing' | first row
run mean --data good.csv → column
run mean --data words.csv → words.csv
run mean --data good.csv --schema nowhere.json → nowhere.json
run mean --data good.csv --schema folder → folder
run mean --data good.csv --schema good.csv → good.csv
run mean --data good.csv --schema list.json → list.json
run mean --data good.csv --schema other.json → nothing
run mean --data good.csv --column minutes --users 999 → --users
run decision-list --data good.csv --label nothing → 'nothing' | first row
run decision-list --data good.csv → --label
survey --ask share(country) --data nowhere.csv → nowhere.csv
survey --ask share(nothing) --data good.csv → 'nothing' | first row
plan survey --ask share(country) --schema nowhere.json → nowhere.json
plan survey --ask share(country) --schema binary.csv → binary.csv
plan survey --ask share(country) --schema deep.json → deep.json
curator interval --data nowhere.csv → nowhere.csv
curator interval --data good.csv --column nothing → 'nothing' | first row
curator parity --data good.csv → --label
client --data nowhere.csv --cap 1 → nowhere.csv
client {mine} {entering} --wallet folder → folder
client {mine} {entering} --wallet nowhere/x → nowhere
client {mine} {entering} --wallet /proc/x → /proc/x
client {mine} {entering} --wallet binary.csv → binary.csv
client --data me.csv --cap 1 --yes --schema nowhere.json → nowhere.json
client {mine} --server {server} --enrolment-token nowhere.token → nowhere.token
client {mine} --server {server} --enrolment-token folder → folder
client {mine} --server {server} --enrolment-token empty.csv → empty.csv
client {mine} --server {server} --enrolment-token binary.csv → binary.csv
fleet --users 1 {entering} --data nowhere.csv → nowhere.csv
fleet --users 1 {entering} --data empty.csv → empty.csv
fleet --users 1 {entering} --wallets file → file
fleet --users 1 {entering} --wallets /proc/x → /proc/x
fleet --users 1 --server {server} --enrolment-token nowhere.token → nowhere.token
load --users 1 --operator-token nowhere.token → nowhere.token
wallet show nowhere → nowhere
wallet show folder → folder
wallet show empty.csv → empty.csv
wallet show binary.csv → binary.csv
wallet heads good.csv → good.csv
wallet show loop.csv → loop.csv
study verify nowhere → nowhere

study verify good.zip --study abc → --study
study verify good.zip --head x → --head
study export abcd --out folder → folder
users enrol 3 --out folder {operated} → folder
users enrol 3 --out file {operated} → file
users enrol 3 --out nowhere/x {operated} → nowhere/x
users enrol 3 --out /proc/x {operated} → /proc/x
users invite 3 --out /proc/x {operated} → /proc/x
users codes 3 --out /proc/x {operated} → /proc/x
users renew 3 --out file/x {operated} → file/x
separation --d 4 --users 10 --seeds 1 --out /proc/x → /proc/x
separation --d 4 --users 10 --seeds 1 --out file → file
separation --d 4 --users 10 --seeds 1 --out file/x → file/x
separation --d 4 --users 10 --seeds 1 --out damaged --resume → damaged
landscape --classes POINT --seeds 10 --out /proc/x → /proc/x
landscape --classes POINT --seeds 10 --out file → file
landscape --show --out nowhere → nowhere
landscape --show --out damaged → damaged
serve --config nowhere.toml → nowhere.toml
serve --config folder → folder
serve --config binary.csv → binary.csv
serve --config good.csv → good.csv | TOML
serve --config wrong.toml → wrong.toml | did you mean cap
serve --database file --port 0 → file
serve --database /proc/x --port 0 → /proc/x
serve --database file/x --port 0 → file/x
serve --data-directory /proc/x --port 0 → /proc/x
doctor --deeep → --deeep | did you mean --deep
doctor now → now
completion cmd → 'cmd' | bash
"""

ELSEWHERE = """
serve --port 65536 → --port
serve --port -1 → --port
serve --port http → --port
serve --host {own} --port 65535 → port 65535 | is taken
serve --host nowhere.invalid → nowhere.invalid | try 127.0.0.1
serve --host '' → --host
serve --host 192.0.2.1 --port 0 → 192.0.2.1
serve --database mysql://127.0.0.1/x → --database
serve --database 'host=x dbname=y' → --database
serve --database ~nobody-here/x → --database | home
serve --data-directory ~nobody-here/x → --data-directory | home
serve --database 'postgresql://[' → URL
serve --database '' → --database
serve --log-level loud → --log-level
serve --log-format xml → --log-format
serve --enrolment none → --enrolment
demo --port 65536 → --port
demo --port -1 → --port
health --server nonsense → --server
health --server ftp://127.0.0.1 → --server
health --server http:// → --server
study list --server nonsense → --server
study list --server '' → --server
study list --server ftp://127.0.0.1 → --server
study list --server http://127.0.0.1:99999 → --server
study show --server http:// → --server
users count --server nonsense --operator-token {operator} → --server
load --users 1 --server nonsense {tokens} → --server
fleet --users 1 --server nonsense → --server
client {mine} --server nonsense --wallet fresh → --server
run mean --users 10 --server nonsense {tokens} → --server
demo --server nonsense → --server
demo --server {server} → operator token | --operator-token
users count --server {server} → operator token | --operator-token
users count --server {server} --operator-token {enrolment} → operator
users count --server {server} --operator-token {user} → operator
users count --server {server} --operator-token empty.csv → empty.csv
users count --server {server} --operator-token wrong.token → token
users enrol 1 --server {server} --operator-token {user} → operator
users enrol 5-6 {operated} → users 5-6
users renew 999 {operated} → 999
study create mean --server {server} --operator-token {user} → operator
study create mean --server {server} --operator-token wrong.token → token
study show abcd --server {server} → abcd
study show xyz --server {server} → xyz
study show --server {server} → study
study result abcd --server {server} → abcd
study watch abcd --server {server} → abcd
study close abcd {operated} → abcd
study cancel abcd --yes {operated} → abcd
study export abcd --out new --server {server} → abcd
study show {digest} --server {server} → study
client {mine} {entering} --wallet {wallet} → no such study
client {mine} --server {server} --wallet {other_wallet} → --enrolment-token
client {mine} --server {server} --enrolment-token wrong.token --wallet {other_wallet} → --enrolment-token
fleet --users 1 --server {server} --wallets {scratch} → --enrolment-token
fleet --users 1 --server {server} --enrolment-token {operator} --wallets {scratch} → --enrolment-token | role
fleet --users 1 {entering} --wait 0 --wallets {scratch} → --wait
wallet heads {wallet} --compare '{digest} 3 {digest}' --server {server} → no such study
"""

AWAY_CALLS = """
demo --server {other} --operator-token {operator} → {other} | no Askance server
client {mine} --server {other} --enrolment-token {enrolment} --wallet fresh → {other} | no Askance server
fleet --users 1 --server {other} --enrolment-token {enrolment} → {other} | no Askance server
study list --server {other} → {other} | no Askance server
study show --server {other} → {other} | no Askance server
users count --server {other} --operator-token {operator} → {other} | no Askance server
load --users 1 --server {other} {tokens} → {other} | no Askance server
run mean --users 10 --server {other} {tokens} → {other} | no Askance server
health --server {closed} → {closed} | askance serve
health --server http://nowhere.invalid → nowhere.invalid
health --server {other} → {other} | no Askance server
study list --server {closed} → {closed} | askance serve
study list --server http://nowhere.invalid → nowhere.invalid
study show --server {closed} → {closed}
study result --server {closed} → {closed}
study watch --server {closed} → {closed}
study create mean --server {closed} --operator-token {operator} → {closed}
study close abcd --server {closed} --operator-token {operator} → {closed}
study cancel abcd --yes --server {closed} --operator-token {operator} → {closed}
study export abcd --out new --server {closed} → {closed}
users count --server {closed} --operator-token {operator} → {closed}
users enrol 3 --server {closed} --operator-token {operator} → {closed}
users invite 3 --out t --server {closed} --operator-token {operator} → {closed}
users renew 3 --server {closed} --operator-token {operator} → {closed}
load --users 1 --server {closed} {tokens} → {closed}
load --users 1 --batch 1 --server {closed} {tokens} → {closed}
fleet --users 1 --server {closed} --enrolment-token {enrolment} → {closed}
client {mine} --server {closed} --enrolment-token {enrolment} --wallet fresh → {closed}
demo --server {closed} --operator-token {operator} → {closed}
run mean --users 10 --server {closed} {tokens} → {closed}
wallet heads {wallet} --compare '{digest} 3 {digest}' --server {closed} → {closed}
serve --database postgresql://127.0.0.1:{port}/x --port 0 → postgresql | try again
"""

NOBODY = """
study create mean --users needed {operated} → round 1: needs | askance users enrol | --users all
"""

CHECKED = """
study verify file → file | is no export
study verify empty.csv → empty.csv | is no export
study verify good.zip → is no export
"""

TABLE: Final[list[Row]] = [
    *rows(NAMES),
    *rows(NUMBERS),
    *rows(TOGETHER),
    *rows(FILES),
    *rows(ELSEWHERE),
    *rows(AWAY_CALLS, AWAY),
    *rows(NOBODY, Exit.TOO_FEW_USERS),
    *rows(CHECKED, Exit.CHECK_FAILED),
]
