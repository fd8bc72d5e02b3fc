"""The Seatbelt judge reproduces what others measured with sandbox-exec, and reads strings as Scheme does."""

from __future__ import annotations

import pytest

from . import seatbelt
from .seatbelt import Endpoint, SbplError, decide, decide_all, read_profile

HEAD = "(version 1)\n"
DENY = HEAD + "(deny default)\n"
ALLOW = HEAD + "(allow default)\n"


def literal_of(value: str) -> str:
    """The path that the reader sees for a string literal, written with its quotes."""
    rule = read_profile(f"{DENY}(allow file-read* (literal {value}))").rules[1]
    assert rule.filter is not None
    return str(rule.filter[1])


MEASURED = [
    (
        DENY + '(allow file-read-data (subpath "/"))(deny file-read* (literal "/p/.env"))',
        "file-read-data",
        "/p/.env",
        "REGULAR-FILE",
        True,
    ),
    (
        DENY + '(allow file-read-data (subpath "/"))(deny file-read-data (literal "/p/.env"))',
        "file-read-data",
        "/p/.env",
        "REGULAR-FILE",
        False,
    ),
    (
        DENY + '(allow file-read* (subpath "/U"))(deny file-read-data (subpath "/U/K"))'
        '(allow file-read* (literal "/U/K/db"))',
        "file-read-data",
        "/U/K/db",
        "REGULAR-FILE",
        False,
    ),
    (
        DENY + '(allow network-outbound (subpath "/s"))(deny network-outbound (subpath "/s"))',
        "network-outbound",
        "/s/a.sock",
        "SOCKET",
        False,
    ),
    (
        DENY + '(deny network-outbound (subpath "/s"))(allow network-outbound (subpath "/s"))',
        "network-outbound",
        "/s/a.sock",
        "SOCKET",
        True,
    ),
    (
        DENY + '(deny network-outbound (subpath "/s"))(allow network-outbound)',
        "network-outbound",
        "/s/a.sock",
        "SOCKET",
        False,
    ),
    (
        DENY + '(deny file-read* (subpath "/h/.ssh"))(allow file-read*)',
        "file-read-data",
        "/h/.ssh/id",
        "REGULAR-FILE",
        False,
    ),
    (
        ALLOW + '(deny file-read* (subpath "/h"))(allow file-read-metadata (subpath "/h"))',
        "file-read-metadata",
        "/h/x",
        "REGULAR-FILE",
        True,
    ),
    (
        ALLOW + '(deny file-read* (subpath "/h"))(allow file-read-metadata (subpath "/h"))',
        "file-read-data",
        "/h/x",
        "REGULAR-FILE",
        False,
    ),
    (
        DENY + '(allow file-write-create file-write-unlink (require-all (subpath "/a") (vnode-type DIRECTORY)))'
        '(deny file-write* (subpath "/a/bin"))',
        "file-write-unlink",
        "/a/bin",
        "DIRECTORY",
        True,
    ),
    (
        DENY + '(allow file-read* (literal "/tmp/foo"))',
        "file-read-data",
        "/private/tmp/foo",
        "REGULAR-FILE",
        False,
    ),
    (
        ALLOW + '(deny file-write* (subpath "/Users"))(allow file-write* (subpath "/Users/me/out"))',
        "file-write-create",
        "/Users/me/out/f",
        "REGULAR-FILE",
        True,
    ),
]


@pytest.mark.parametrize(("text", "operation", "path", "vnode", "expected"), MEASURED)
def test_measured_outcome(text: str, operation: str, path: str, vnode: str, expected: bool) -> None:
    """The kernel reading gives every outcome that was measured on a Mac."""
    assert expected == decide(read_profile(text), operation, path, vnode=vnode)[0]


def test_textual_reading_misses_measured_outcomes() -> None:
    """Reading the text as last match wins gets several measured outcomes wrong, so readings do differ."""
    wrong = [
        row
        for row in MEASURED
        if decide(read_profile(row[0]), row[1], row[2], vnode=row[3], reading="textual-last")[0] != row[4]
    ]
    assert len(wrong) == 5


def test_exclusive_rules_agree_in_every_reading() -> None:
    """A profile of mutually exclusive filtered rules has one answer under all readings."""
    profile = read_profile(
        DENY + '(define inner (subpath "/w/ro"))'
        '(allow file-read* file-write* (require-all (subpath "/w") (require-not inner)))'
        "(allow file-read* inner)(deny file-write* inner)"
    )
    for path, expected in (("/w/a", True), ("/w/ro", False), ("/w/ro/x", False), ("/x", False)):
        assert {expected} == set(decide_all(profile, "file-write-data", path).values())


def test_decide_names_the_rule() -> None:
    """The rule that decided comes back, and None where no rule matched."""
    profile = read_profile(HEAD + '(allow file-read* (subpath "/a"))')
    assert (True, profile.rules[0]) == decide(profile, "file-read-data", "/a/b")
    assert decide(profile, "file-read-data", "/b") == (False, None)


@pytest.mark.parametrize(
    "operation",
    ["file-link", "file-clone", "file-map-executable", "file-test-existence", "file-write-setugid"],
)
def test_own_roots_are_allowed_unless_named(operation: str) -> None:
    """Neither (deny default) nor (deny file*) reaches an operation that is a root of its own."""
    blanket = read_profile(DENY + '(deny file* (subpath "/"))')
    named = read_profile(DENY + f'(deny {operation} (subpath "/a"))')
    assert decide(blanket, operation, "/a/f") == (True, None)
    assert not decide(named, operation, "/a/f")[0]


def test_fallbacks_that_surprise() -> None:
    """network-bind falls back to network-inbound, process-exec is an alias, unknown names are refused."""
    assert seatbelt.chain("network-bind") == ("network-bind", "network-inbound", "network*", "default")
    assert seatbelt.chain("process-exec")[0] == "process-exec*"
    assert seatbelt.chain("nvram-get") == ("nvram-get", "nvram*")
    with pytest.raises(ValueError, match="unknown operation"):
        seatbelt.chain("file-write")


# ---- strings ----


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (r'"/a\"b"', '/a"b'),
        (r'"/a\\b"', "/a\\b"),
        (r'"/a\nb\tc\rd"', "/a\nb\tc\rd"),
        (r'"/\x41;"', "/A;"),
        (r'"/\101"', "/A"),
        (r'"/\u00e9"', "/u00e9"),
        (r'"/a\.b"', "/a.b"),
        ('"/a;b"', "/a;b"),
        ('"/\u00e9\u6f22"', "/\u00e9\u6f22"),
        (r'"/\xc3\xa9"', "/\u00e9"),
        ('"/two\nlines"', "/two\nlines"),
    ],
)
def test_string_escapes(written: str, seen: str) -> None:
    """Escapes mean what the Scheme reader makes of them; an unknown one is just its letter."""
    assert seen == literal_of(written)


def test_every_byte_survives() -> None:
    """All bytes 1 to 255 survive raw inside quotes and as hex escapes; only quote and backslash need care."""
    everything = "/" + bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    escaped = everything.replace("\\", "\\\\").replace('"', '\\"')
    data = everything.encode("utf-8", "surrogateescape")
    parts = " ".join('"' + "".join(f"\\x{byte:02x}" for byte in data[i : i + 64]) + '"' for i in range(0, 256, 64))
    assert everything == literal_of(f"(string-append {parts})")
    raw = [escaped[:100], escaped[100:]]
    assert everything == literal_of(f'(string-append "{raw[0]}" "{raw[1]}")')


def test_literal_limit() -> None:
    """A literal of 255 bytes reads, one of 256 is an error, and string-append makes longer paths."""
    long = "/" + "a" * 254
    assert long == literal_of(f'"{long}"')
    assert long + long == literal_of(f'(string-append "{long}" "{long}")')
    with pytest.raises(SbplError, match="Error reading string"):
        literal_of(f'"{long}a"')


def test_nul_is_refused() -> None:
    """NUL can stand neither in a profile nor in a parameter."""
    with pytest.raises(SbplError, match="NUL"):
        read_profile(DENY + '(allow file-read* (literal "/a\0b"))')
    with pytest.raises(SbplError, match="NUL"):
        read_profile(DENY, {"K": "a\0"})


def test_raw_regex_keeps_backslashes() -> None:
    """A raw string ends at the first quote and keeps backslashes; a plain string loses them."""
    raw = read_profile(DENY + r'(allow file-read* (regex #"^/a\.b$"))')
    plain = read_profile(DENY + r'(allow file-read* (regex "^/a\.b$"))')
    assert (
        decide(raw, "file-read-data", "/aXb")[0],
        decide(raw, "file-read-data", "/a.b")[0],
    ) == (False, True)
    assert decide(plain, "file-read-data", "/aXb")[0]
    with pytest.raises(SbplError):
        read_profile(DENY + r'(allow file-read* (regex #"^/a\"b$"))')


def test_comments() -> None:
    """A comment runs from a semicolon, or #!, to the end of the line; block comments do not exist."""
    text = '; (allow default)\n#! also one\n(allow file-read* (literal "/a")) ; tail'
    assert len(read_profile(DENY + text).rules) == 2
    with pytest.raises(SbplError):
        read_profile(DENY + "#| block |#")


def test_vocabulary_in_use_reads() -> None:
    """The operations and filters that published profiles use are known, each with its own kind of value."""
    text = """
        (allow process-exec process-fork pseudo-tty mach-register lsopen ipc-posix-sem)
        (allow process-info* mach-priv-task-port (target same-sandbox)) (allow signal (target self))
        (allow sysctl-read (sysctl-name "hw.memsize") (sysctl-name-prefix "hw.optional."))
        (allow mach-lookup (global-name "com.apple.logd") (xpc-service-name "a.b") (local-name "c"))
        (allow iokit-open iokit-open-user-client (iokit-registry-entry-class "RootDomainUserClient"))
        (allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))
        (allow user-preference-read (preference-domain "kCFPreferencesAnyApplication"))
        (allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
        (allow system-fsctl (fsctl-command FSIOC_CAS_BSDFLAGS) (fsctl-command (_IO "h" 47)))
        (allow file-write-data (require-all (path "/dev/null") (vnode-type CHARACTER-DEVICE)))
        (allow file-read* file-write* file-ioctl (require-all (regex #"^/dev/ttys[0-9]+")
            (extension "com.apple.sandbox.pty")))
        (allow network-inbound (local tcp "*:*")) (allow network* (remote udp) (remote unix-socket))
        (allow file-map-executable (prefix "/opt/lib")) (deny nvram* (with no-report))
    """
    profile = read_profile(DENY + text)
    assert len(profile.rules) == 17
    facts = {"socket-domain": "AF_SYSTEM", "socket-protocol": "2"}
    assert decide(profile, "system-socket", facts=facts)[0]
    assert not decide(profile, "system-socket", facts={**facts, "socket-protocol": "1"})[0]
    assert decide(profile, "file-write-data", "/dev/null", vnode="CHARACTER-DEVICE")[0]
    assert decide(profile, "file-ioctl", "/dev/ttys1", facts={"extension": "com.apple.sandbox.pty"})[0]
    assert not decide(profile, "file-ioctl", "/dev/ttys1")[0]


def test_string_procedures_work_on_every_byte() -> None:
    """The prelude repairs string-ref, so comparison, lists and substrings work, byte 255 included."""
    text = r"""
        (define (check name ok) (if (not ok) (error name)))
        (check "equal" (string=? "a\xff\x80b" (string-append "a\xff" "\x80b")))
        (check "differ" (not (string=? "a\xff" "a\xfe")))
        (check "length" (not (string=? "a\xff" "a")))
        (check "case" (not (string=? "A" "a")))
        (check "order" (and (string<? "abc" "abd") (string<? "ab" "abc") (not (string<? "b" "abc"))))
        (check "list" (string=? "abc" (list->string (string->list "abc"))))
        (check "member" (and (member "b" '("a" "b")) (equal? "x" "x") (assoc "k" '(("k" . 1)))))
        (check "substring" (string=? "bc" (substring "abcd" 1 3)))
        (check "param" (not (param "NONE")))
    """
    assert len(read_profile(DENY + text).rules) == 1


# ---- what must not read ----


@pytest.mark.parametrize(
    "form",
    [
        '(allow file-write (subpath "/a"))',  # unknown operation
        '(allow file-read* "/a")',  # bare path
        '(allow file-read* (literal "/a")))',  # one parenthesis too many
        '(allow file-read* (literal "/a"',  # a form left open
        '(allow file-read* (literal "/a))',  # a string left open
        '(allow file-read* (literal "/a\\x4"))',  # half a hex escape
        '(allow file-read* (require-not (literal "/a") (literal "/b")))',
        "(allow file-read* (require-not))",
        "(allow file-read* (require-any))",
        '(allow file-read* (subpath (param "MISSING")))',
        '(allow file-read* (subpath (string-append (param "MISSING") "/a")))',
        '(allow file-read* (subpath "relative"))',
        '(allow file-read* (subpath ""))',
        "(allow file-read* (subpath))",
        '(allow (subpath "/a"))',
        "(allow)",
        "(allow file-read* (vnode-type FOLDER))",
        '(allow sysctl-read (subpath "/a"))',
        '(allow network-outbound (remote ip "10.0.0.1:80"))',
        '(allow network-outbound (remote ip "localhost:0"))',
        '(allow network-outbound (remote ip "localhost"))',
        '(allow file-read* (regex "^/(?:a|b)$"))',
        r'(allow file-read* (regex #"^/\d+$"))',
        r'(allow file-read* (regex #"^/[\w]+$"))',
        '(allow file-read* (regex "^/a{2}$"))',
        '(allow file-read* (regex "^/(a$"))',
        '(allow file-read* (regex "^/[a$"))',
        "(allow file-read* (with sparkle))",
        '(import "bsd.sb")',
        '(if #t (error "stop" "here"))',
        '(display "stray")',
    ],
)
def test_broken_profile(form: str) -> None:
    """What the real compiler refuses, or what the dialect leaves in doubt, is an error here."""
    with pytest.raises(SbplError):
        read_profile(DENY + form)


def test_huge_form_is_not_dropped_in_silence() -> None:
    """A form with too many filters for the interpreter is an error, not a missing rule."""
    filters = " ".join(f'(literal "/some/where/file{number}")' for number in range(2500))
    with pytest.raises(SbplError, match="No memory"):
        read_profile(DENY + f"(define group (require-any {filters}))(allow file-read* group)")


def test_version_is_demanded() -> None:
    """A profile without (version 1), or with it after a rule, is an error."""
    for text in ("(deny default)", "(deny default)(version 1)", "(version 2)"):
        with pytest.raises(SbplError):
            read_profile(text)


# ---- Scheme of a profile's own ----


def test_helpers_of_the_profile_run() -> None:
    """A profile may decide at load how its parameters nest, and stop with an error."""
    text = (
        DENY + "(define (%below? a b) (let ((n (string-length b)))"
        ' (and (> (string-length a) n) (string=? (substring a 0 (+ n 1)) (string-append b "/")))))'
        '(define w (param "WORKSPACE")) (define h (param "HOME"))'
        "(cond ((%below? w h) (allow file-read* (require-all (subpath h) (require-not (subpath w)))))"
        " ((or (%below? h w) (not (string=? h w))) (allow file-read* (subpath w)))"
        ' (else (error "same place" w)))'
        '(when (string=? h "/h") (deny file-write* (subpath h)))'
    )
    inside = read_profile(text, {"WORKSPACE": "/h/w", "HOME": "/h"})
    apart = read_profile(text, {"WORKSPACE": "/w\udcff\u00e9", "HOME": "/w\udcff\u00e8"})
    assert [rule.filter for rule in inside.rules[1:]] == [
        ("require-all", ("subpath", "/h"), ("require-not", ("subpath", "/h/w"))),
        ("subpath", "/h"),
    ]
    assert [rule.filter for rule in apart.rules[1:]] == [("subpath", "/w\udcff\u00e9")]
    with pytest.raises(SbplError, match="same place"):
        read_profile(text, {"WORKSPACE": "/h", "HOME": "/h"})


@pytest.mark.parametrize("place", ["/a", "/a.b+c", "/x(1)", "/x[y]{z}", "/back\\slash", "/$^*?|", "/\u00e9\udcff"])
def test_regex_quote(place: str) -> None:
    """A quoted place matches itself only, whatever metacharacters it holds."""
    text = '(allow file-read* (regex (string-append "^" (regex-quote (param "P")) "/(.*/)?([.]env)(/.*)?$")))'
    profile = read_profile(DENY + text, {"P": place})
    for tail, expected in (("/.env", True), ("/a/.env/b", True), ("/Xenv", False), ("/.environment", False)):
        assert expected == decide(profile, "file-read-data", place + tail)[0]
    assert not decide(profile, "file-read-data", "/other" + place + "/.env")[0]


def test_modifiers_and_aliases() -> None:
    """Modifiers are kept beside the rule and do not change the decision; old spellings mean the new ones."""
    profile = read_profile(
        HEAD + '(deny default (with message "tag"))(deny (with no-log) file-read* (path "/a"))'
        '(allow process-exec (with no-sandbox) (path-literal "/bin/x"))'
        "(deny signal (with send-signal SIGKILL))"
    )
    assert [rule.modifiers for rule in profile.rules] == [
        (("message", "tag"),),
        (("no-log",),),
        (("no-sandbox",),),
        (("send-signal", "sigkill"),),
    ]
    assert (
        profile.rules[2].operations,
        profile.rules[2].filter,
    ) == (("process-exec*",), ("literal", "/bin/x"))


# ---- filters ----


def test_path_filters_compare_as_written() -> None:
    """A doubled or trailing slash makes a filter dead, prefix ignores components, subpath covers its root."""
    dead = read_profile(DENY + '(allow file-read* (subpath "/a/") (literal "//b") (subpath "/c/./d"))')
    for path in ("/a", "/a/x", "/b", "/c/d"):
        assert not decide(dead, "file-read-data", path)[0]
    live = read_profile(DENY + '(allow file-read* (subpath "/a") (prefix "/pre"))(allow file-write* (subpath "/"))')
    for path, expected in (("/a", True), ("/a/b", True), ("/ab", False), ("/prefixed", True)):
        assert expected == decide(live, "file-read-data", path)[0]
    assert decide(live, "file-write-data", "/any/where")[0]


def test_doubtful_points_are_options() -> None:
    """Case folding and a subpath on a regular file are asked both ways."""
    profile = read_profile(DENY + '(allow file-read* (subpath "/A/b"))(allow file-read* (regex "^/R$"))')
    assert tuple(decide(profile, "file-read-data", "/a/B", fold_case=fold)[0] for fold in (False, True)) == (
        False,
        True,
    )
    assert not decide(profile, "file-read-data", "/r", fold_case=True)[0]
    assert not decide(profile, "file-read-data", "/A/b", subpath_covers_file=False)[0]
    assert decide(profile, "file-read-data", "/A/b", vnode="DIRECTORY", subpath_covers_file=False)[0]


def test_questions_must_be_canonical() -> None:
    """The kernel compares canonical paths only, so other questions are a mistake of the test."""
    profile = read_profile(DENY)
    for path in ("/a/", "//a", "/a/../b", "a", ""):
        with pytest.raises(ValueError, match="canonical"):
            decide(profile, "file-read-data", path)


def test_regex_is_unanchored() -> None:
    """Without anchors a pattern matches anywhere; brackets, groups and alternatives work on bytes."""
    profile = read_profile(DENY + '(allow file-read* (regex "[eE]nv(/|$)"))(allow file-write* (regex "^/[^/]+$"))')
    for path, expected in (("/x/Env", True), ("/x/env/y", True), ("/x/envy", False)):
        assert expected == decide(profile, "file-read-data", path)[0]
    assert tuple(decide(profile, "file-write-data", path)[0] for path in ("/new\nline", "/a/b")) == (
        True,
        False,
    )


def test_network_filters() -> None:
    """Loopback rules cover loopback addresses, not mapped ones and not Unix sockets, which go by path."""
    profile = read_profile(
        DENY + '(allow network-outbound (remote ip "localhost:*"))(allow network-inbound (local ip "localhost:*"))'
        '(allow network-outbound (literal "/run/ok.sock")'
        ' (remote unix-socket (path-literal "/run/old.sock")))'
    )
    for host, expected in (
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", False),
        ("192.0.2.1", False),
    ):
        assert expected == decide(profile, "network-outbound", remote=Endpoint(host=host, port=80))[0]
        assert expected == decide(profile, "network-bind", local=Endpoint(host=host, port=80))[0]
    for path, expected in (("/run/ok.sock", True), ("/run/old.sock", True), ("/run/docker.sock", False)):
        assert expected == decide(profile, "network-outbound", path, vnode="SOCKET")[0]


def test_port_and_protocol() -> None:
    """A port, a protocol and an address family narrow an address filter."""
    profile = read_profile(DENY + '(allow network-outbound (remote tcp "*:443") (remote udp6 "localhost:53"))')
    for end, expected in (
        (Endpoint(host="192.0.2.1", port=443), True),
        (Endpoint(host="192.0.2.1", port=80), False),
        (Endpoint(host="192.0.2.1", port=443, protocol="udp"), False),
        (Endpoint(host="::1", port=53, protocol="udp"), True),
        (Endpoint(host="127.0.0.1", port=53, protocol="udp"), False),
    ):
        assert expected == decide(profile, "network-outbound", remote=end)[0]


def test_named_services() -> None:
    """Filters on names outside the file system ask the facts of the question."""
    profile = read_profile(DENY + '(allow mach-lookup (global-name "a.b") (global-name-prefix "c."))')
    for name, expected in (("a.b", True), ("a.bc", False), ("c.d", True)):
        assert expected == decide(profile, "mach-lookup", facts={"global-name": name})[0]
    assert not decide(profile, "mach-lookup")[0]
