"""Tokens: one text each, each for one endpoint; keys and tokens on disk for their owner alone."""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import itertools
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol.errors import Code, ProtocolError
from askance_server import auth
from askance_server.auth import (
    AuthError,
    EnrolmentToken,
    ForbiddenError,
    GatewayToken,
    KeyFileError,
    Keys,
    OperatorToken,
    Token,
    UserToken,
    keys,
    open_keys,
    write_tokens,
)

SERVER_KEY = bytes(range(32))
KEYS = Keys(SERVER_KEY)
STUDY = "5a" * 32
TOKENS: list[Token] = [
    UserToken(7, 2),
    EnrolmentToken("field work"),
    EnrolmentToken("ticket", 4_000_000_000, "0f" * 16, 20, False),
    OperatorToken("operator"),
    GatewayToken(STUDY, 100, 50),
]
each_token = pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.role)


def header(text: str, scheme: str = "Bearer ") -> bytes:
    return (scheme + text).encode()


# ----------------------------------------------------------------------------------------------------- tokens


@each_token
def test_a_token_is_read_back_as_what_was_minted(token: Token) -> None:
    assert KEYS.read(KEYS.mint(token), type(token)) == token


def test_the_tag_is_hmac_sha256_of_role_and_payload_under_a_key_for_the_role() -> None:
    """Recomputed here from the description alone."""
    role, payload, tag = KEYS.mint(UserToken(7, 2)).split(".")
    key = hmac.digest(SERVER_KEY, b"askance token 1 user", "sha256")
    expected = base64.urlsafe_b64encode(hmac.digest(key, f"{role}.{payload}".encode(), hashlib.sha256))

    assert base64.urlsafe_b64decode(payload) == (7).to_bytes(6, "big") + (2).to_bytes(6, "big")
    assert expected.decode().rstrip("=") == tag


OLD_TOKENS: list[tuple[str, Token]] = [
    ("user.AAAAAAAHAAAAAAAC.zHIAHPlFwqXJVOU4skgdPf4D6h7kZzKDHTKNFFxJnQs", UserToken(7, 2)),
    (
        "enrolment.eyJleHBpcmVzIjoyMDAwMDAwMDAwLCJsYWJlbCI6ImZpZWxkIHdvcmsifQ"
        ".LnRDmCm5DunEch_79xOKskxqo4cLk4aSVDjBZXr5oF8",
        EnrolmentToken("field work", 2_000_000_000),
    ),
    ("operator.eyJsYWJlbCI6Im9wZXJhdG9yIn0.MSkP5CER5n3OPz3QDxQTFxutEiXiQFUDKvE7bHvYEpQ", OperatorToken("operator")),
    (
        "gateway.eyJjb3VudCI6NTAsImZpcnN0IjoxMDAsInN0dWR5IjoiNWE1YTVhNWE1YTVhNWE1YTVhNWE1YTVhNWE1YTVhNWE1YTVh"
        "NWE1YTVhNWE1YTVhNWE1YTVhNWE1YTVhNWE1YSJ9.8ZRrTn3jkR6IUc9IpEX1533SX-QJn0ftyPUBoifkDKc",
        GatewayToken(STUDY, 100, 50),
    ),
]


@pytest.mark.parametrize(("text", "token"), OLD_TOKENS, ids=lambda each: str(each)[:9])
def test_tokens_and_key_files_of_version_0_1_stay_valid(tmp_path: Path, text: str, token: Token) -> None:
    (tmp_path / "server.key").touch(mode=0o600)
    (tmp_path / "server.key").write_text(SERVER_KEY.hex() + "\n")

    assert open_keys(tmp_path).read(text, type(token), now=1_999_999_999) == token
    assert open_keys(tmp_path).mint(token) == text


@pytest.mark.parametrize(
    ("token", "kind"),
    [(token, kind) for token, kind in itertools.product(TOKENS, auth.ROLES.values()) if type(token) is not kind],
    ids=lambda each: each.role,
)
def test_no_role_stands_for_another(token: Token, kind: type[UserToken]) -> None:
    with pytest.raises(ForbiddenError, match=f"takes a token of the role {kind.role}"):
        KEYS.read(KEYS.mint(token), kind)


@pytest.mark.parametrize("token", TOKENS[1:], ids=lambda token: token.role)
def test_none_but_a_user_reports_as_a_user(token: Token) -> None:
    with pytest.raises(ForbiddenError):
        KEYS.user_token(header(KEYS.mint(token)))


@pytest.mark.parametrize(("token", "role"), [*itertools.product(TOKENS, auth.ROLES)], ids=lambda each: str(each)[:12])
def test_a_tag_of_one_role_is_no_tag_of_another(token: Token, role: str) -> None:
    _, payload, tag = KEYS.mint(token).split(".")
    if role == token.role:
        return
    with pytest.raises(AuthError) as caught:
        KEYS.read(f"{role}.{payload}.{tag}", UserToken)
    assert caught.type is AuthError


@given(user=st.integers(0, 2**48 - 1), epoch=st.integers(0, 2**48 - 1))
def test_the_hot_path_reads_every_user_and_epoch(user: int, epoch: int) -> None:
    token = UserToken(user, epoch)

    text = KEYS.mint(token)

    assert KEYS.user_token(header(text)) == token
    assert KEYS.user_token(header(text, "bearer  ")) == token == KEYS.read(text, UserToken)


@each_token
def test_every_single_changed_character_voids_a_token(token: Token) -> None:
    text = KEYS.mint(token)
    for place, other in itertools.product(range(len(text)), "A.b_"):
        changed = text[:place] + other + text[place + 1 :]
        if changed == text:
            continue
        with pytest.raises(AuthError) as caught:
            KEYS.read(changed, type(token))
        assert caught.type is AuthError
        with pytest.raises(AuthError):
            KEYS.user_token(header(changed))


def test_no_other_text_means_the_same_token() -> None:
    """The last digit of a tag has two bits that stand for nothing; a decoder would let them vary."""
    text = KEYS.mint(UserToken(7, 2))
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    accepted: list[str] = []
    for digit in digits:
        try:
            KEYS.user_token(header(text[:-1] + digit))
        except AuthError:
            continue
        accepted.append(digit)
    assert accepted == [text[-1]]


MALFORMED = [
    "",
    ".",
    "..",
    "user",
    "user..",
    "user.AAAA",
    "nobody.AAAA.BBBB",
    "user.é.é",
    "x" * 5000,
    "user.AAAA.BBBB.CCCC",
]


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("kind", [*auth.ROLES.values()], ids=lambda kind: kind.role)
def test_malformed_and_forged_tokens_get_one_message(text: str, kind: type[UserToken]) -> None:
    forged = Keys(bytes(32)).mint(UserToken(7, 2))
    messages: set[str] = set()
    for wrong in (text, forged):
        with pytest.raises(AuthError) as caught:
            KEYS.read(wrong, kind)
        assert caught.type is AuthError
        messages.add(str(caught.value))
    assert messages == {str(AuthError())}
    assert (AuthError.code, ForbiddenError.code) == (Code.UNAUTHORIZED, Code.FORBIDDEN)


@pytest.mark.parametrize(
    "authorization",
    [None, b"", b"Bearer", b"Bearer ", b"Basic dTpw", KEYS.mint(TOKENS[0]).encode(), b"Bearer \xff" + b"a" * 64],
)
def test_without_a_bearer_token_the_hot_path_refuses(authorization: bytes | None) -> None:
    with pytest.raises(AuthError) as caught:
        KEYS.user_token(authorization)
    assert str(caught.value) == str(AuthError())


def test_a_token_of_a_former_epoch_is_void_and_not_told_why() -> None:
    UserToken(7, 2).require_epoch(2)
    with pytest.raises(AuthError) as caught:
        UserToken(7, 2).require_epoch(3)
    assert str(caught.value) == str(AuthError())


def test_an_enrolment_token_ends_when_it_says() -> None:
    text = KEYS.mint(EnrolmentToken("field work", expires=1000))

    assert KEYS.read(text, EnrolmentToken, now=999.9).expires == 1000
    with pytest.raises(AuthError, match="expired"):
        KEYS.read(text, EnrolmentToken, now=1000)
    with pytest.raises(AuthError, match="expired"):
        KEYS.read(text, EnrolmentToken)


def users(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def test_a_gateway_reports_for_its_range_and_study_and_only_in_simulation() -> None:
    gateway = GatewayToken(STUDY, 100, 50)

    gateway.require(STUDY, simulated=True, users=users(100, 149))
    gateway.require(STUDY, simulated=True, users=users())
    for outside in (users(99), users(150), users(120, 150, 130), users(2**48)):
        with pytest.raises(ForbiddenError, match=r"100 \.\. 149"):
            gateway.require(STUDY, simulated=True, users=outside)
    with pytest.raises(ForbiddenError, match="another study"):
        gateway.require("00" * 32, simulated=True, users=users(100))
    with pytest.raises(ForbiddenError, match="simulated"):
        gateway.require(STUDY, simulated=False, users=users(100))


def test_a_gateway_without_users_reports_for_no_one() -> None:
    with pytest.raises(ForbiddenError):
        GatewayToken(STUDY, 100, 0).require(STUDY, simulated=True, users=users(100))


@pytest.mark.parametrize(
    "make",
    [
        lambda: UserToken(-1, 0),
        lambda: UserToken(2**48, 0),
        lambda: UserToken(0, 2**48),
        lambda: OperatorToken(""),
        lambda: OperatorToken("a\nb"),
        lambda: EnrolmentToken("x" * 65),
        lambda: EnrolmentToken("x", expires=-1),
        lambda: GatewayToken("5A" * 32, 0, 1),
        lambda: GatewayToken(STUDY, 2**48 - 1, 2),
        lambda: Keys(b"short"),
    ],
)
def test_what_no_token_can_say_is_refused(make: object) -> None:
    with pytest.raises(ProtocolError):
        make()  # type: ignore[operator]


def test_a_genuine_payload_with_unknown_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OperatorToken, "pack", lambda self: b'{"label":"x","may":"everything"}')
    with pytest.raises(AuthError) as caught:
        KEYS.read(KEYS.mint(OperatorToken("x")), OperatorToken)
    assert caught.type is AuthError


def test_keys_show_nothing_of_themselves() -> None:
    shown = f"{KEYS!r} {KEYS} {KEYS!s:>20}"
    assert SERVER_KEY.hex() not in shown
    assert repr(SERVER_KEY)[2:10] not in shown
    with pytest.raises(TypeError):
        vars(KEYS)


def test_the_hot_path_computes_one_tag_and_parses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs 2.6 µs where that was measured: this counts what it does instead, and a machine may be slow."""
    steps: list[str] = []
    tag = keys._tag
    monkeypatch.setattr(keys, "_tag", lambda *given: steps.append("tag") or tag(*given))
    monkeypatch.setattr(Keys, "read", lambda *_, **__: steps.append("read"))

    KEYS.user_token(header(KEYS.mint(UserToken(123_456_789, 1))))
    assert steps == ["tag", "tag"]  # Once to mint it, once to read it.
    # The control: another spelling of the scheme takes the long way.
    KEYS.user_token(header("user.AAAA.AAAA", "bearer  "))
    assert steps == ["tag", "tag", "read"]


# ---------------------------------------------------------------------------------------------- keys on disk


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_first_start_makes_a_key_and_the_second_finds_it(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    text = open_keys(directory).mint(UserToken(1, 0))

    assert open_keys(directory).read(text, UserToken) == UserToken(1, 0)
    assert (mode(directory), mode(directory / "server.key")) == (0o700, 0o600)
    assert auth.read_key(directory / "server.key") != auth.read_key(_other_key(tmp_path))


def _other_key(tmp_path: Path) -> Path:
    open_keys(tmp_path / "other")
    return tmp_path / "other" / "server.key"


def test_files_are_private_also_where_the_umask_is_open(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files = write_tokens(tmp_path / "data", open_keys(tmp_path / "data"))
    finally:
        os.umask(before)
    assert {mode(path) for path in (files.operator, files.enrolment, tmp_path / "data" / "server.key")} == {0o600}


def test_a_first_start_that_is_killed_at_any_point_leaves_no_half_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended before each step in turn, as by a SIGKILL: nothing afterwards is cleaned up."""
    steps = ("open", "fdopen", "fsync", "link")
    for step in steps:
        directory = tmp_path / step
        child = os.fork()
        if not child:
            setattr(os, step, lambda *_, **__: os._exit(9))
            open_keys(directory)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

        assert open_keys(directory).mint(TOKENS[0]) == open_keys(directory).mint(TOKENS[0])


def test_two_first_starts_at_once_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other comes when this one has found that there is no key, and before it has put its own in place."""
    link, others = Path.hardlink_to, list[Keys]()

    def late(self: Path, target: Path) -> None:
        if not others:
            others.append(Keys(b"o" * 32))
            others[0] = open_keys(tmp_path)
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", late)
    ours = open_keys(tmp_path)

    assert ours.mint(TOKENS[0]) == others[0].mint(TOKENS[0])
    assert [file.name for file in tmp_path.iterdir()] == ["server.key"]


def test_a_given_key_is_used_and_never_written(tmp_path: Path) -> None:
    own = open_keys(tmp_path, SERVER_KEY)

    write_tokens(tmp_path, own)

    assert own.mint(TOKENS[0]) == KEYS.mint(TOKENS[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["enrolment.token", "operator.token"]
    assert not any(SERVER_KEY.hex() in path.read_text() for path in tmp_path.iterdir())


def test_the_token_files_hold_working_tokens_and_follow_a_change_of_key(tmp_path: Path) -> None:
    for own in (KEYS, Keys(bytes(32)), Keys(bytes(32))):
        files = write_tokens(tmp_path, own)
        assert own.read(files.operator.read_text().strip(), OperatorToken)
        assert own.read(files.enrolment.read_text().strip(), EnrolmentToken)
        assert len(list(tmp_path.iterdir())) == 2


def test_where_enrolment_is_limited_the_token_of_an_open_start_is_gone(tmp_path: Path) -> None:
    """It enrols without a number: refused while enrolment is limited, and good again where it is open."""
    for _ in range(2):  # The second time there is none: that is no fault.
        files = write_tokens(tmp_path, KEYS, unlimited=False)
        assert not files.enrolment.exists()
        assert KEYS.read(files.operator.read_text().strip(), OperatorToken)
    # The control: an open start writes it, and the next limited one finds it.
    assert write_tokens(tmp_path, KEYS).enrolment.exists()
    assert not write_tokens(tmp_path, KEYS, unlimited=False).enrolment.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["operator.token"]


@pytest.mark.parametrize("bits", [0o604, 0o640, 0o620, 0o666])
@pytest.mark.parametrize("name", ["server.key", "operator.token", "enrolment.token"])
def test_a_file_that_others_can_read_or_write_is_refused_with_the_command_that_repairs_it(
    tmp_path: Path, name: str, bits: int
) -> None:
    write_tokens(tmp_path, open_keys(tmp_path))
    (tmp_path / name).chmod(bits)
    with pytest.raises(KeyFileError, match=f"chmod 600 {tmp_path / name}"):
        write_tokens(tmp_path, open_keys(tmp_path))


def test_a_new_key_is_on_disk_whole_before_it_has_its_name_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cut off in between must not be a key that has signed something, and is gone or half."""
    path, steps = tmp_path / "server.key", list[str]()
    sync, link = os.fsync, os.link

    def synced(descriptor: int) -> None:
        status = os.fstat(descriptor)
        steps.append("names" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", lambda *given, **more: steps.append("link") or link(*given, **more))
    for _ in range(2):
        open_keys(tmp_path)

    # The names are synced for the directory above, too: before, and alone when the key is found.
    assert steps == ["names", "65 bytes", "link", "names", "names"]
    assert path.stat().st_size == 65


@pytest.mark.parametrize("name", ["server.key", "operator.token"])
def test_a_directory_that_takes_no_file_is_one_line_with_the_file_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory = tmp_path.joinpath(*["a" * 200] * 5)  # Longer than what is quoted of a stranger: it stands there whole.
    keys_there = None if name == "server.key" else open_keys(directory)
    opened = os.open

    def read_only(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(KeyFileError) as caught:
        write_tokens(directory, keys_there or open_keys(directory))

    assert caught.value.code is Code.DATA
    assert str(caught.value).startswith(f"{directory / name}.")
    assert str(caught.value).endswith(": cannot be written: Read-only file system (make its directory writable)")


@pytest.mark.parametrize("content", ["", "abc", "g" * 64, "a" * 63, "a" * 65])
def test_a_broken_key_file_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "server.key"
    path.touch(mode=0o600)
    path.write_text(content)
    with pytest.raises(KeyFileError) as caught:
        open_keys(tmp_path)
    assert str(path) in str(caught.value)
    assert not content or content not in str(caught.value)
    assert path.read_text() == content


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeyFileError, match="--database"):
        open_keys(tmp_path / "file" / "data")


def test_a_folder_in_the_place_of_a_key_is_a_refusal_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "server.key").mkdir(mode=0o700)

    with pytest.raises(KeyFileError, match="cannot be read"):
        auth.read_key(tmp_path / "server.key")


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o640, 0o601])
def test_a_file_that_others_may_touch_in_any_way_is_not_private(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "operator.token"
    file.write_text("secret")
    file.chmod(0o600)
    auth.check_private(file)
    file.chmod(mode)

    with pytest.raises(KeyFileError, match=f"its mode is {mode:04o}"):
        auth.check_private(file)


@pytest.mark.parametrize("text", ["user.\ud800.x", "\udcff.a.b", "ué.a.b", "user." + "A" * 5000])
def test_a_text_that_no_header_can_carry_is_no_token_and_no_crash(text: str) -> None:
    with pytest.raises(AuthError):
        Keys(bytes(32)).read(text, UserToken)
