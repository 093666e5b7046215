"""Values that are secrets, and texts without them: what outcomes, files and pages may hold.

A secret is known by the name of its variable, by its option in a command, or by its place in a
URL. Texts from outside (messages of ranks, commands, settings) are masked where they come in.
Standard library only, and Python 3.7, as in ``wire.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Final

#: What is shown in place of a secret.
MASK: Final = "…"
#: Names of variables whose values are secrets. PASS, AUTH, PAT and PWD end a word of the name:
#: no AUTHOR, COMPASS, PATH or TOKENIZERS_PARALLELISM is one.
SECRET_NAME: Final = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|KEY|WEBHOOK|DSN|COOKIE|AUTHORIZATION"
    r"|CONN(?:ECTION)?_?STR(?:ING)?|(?:(?<!BY)(?<!COM)PASS|(?<![A-Z])(?:JWT|LICENSE|CONN)|AUTH"
    r"|(?<![A-Z])PAT|CREDS?|(?<!^)(?<!^OLD)PWD|^PWD(?=_))(?![A-Z])",
    re.IGNORECASE,
)
#: Names of variables that say where a secret is kept.
_PLACE_NAME: Final = re.compile(r"_?(?:FILE|PATH|DIR|SOCK)$", re.IGNORECASE)
#: Options whose values are secrets. Words such as key and token stand for much in a training.
_SECRET_OPTION: Final = re.compile(
    r"(?!(?:.*[-_.])?(?:pad|eos|bos|unk|mask|sep|cls|stop|start|end|image|audio|video|special)[-_.]?token)"
    r"(?:.*[-_.])?(?:(?:(?:db|database|user|admin|proxy|redis|mysql)[-_]?)pass"
    r"|(?:basic[-_]?)?auth|jwt|connection[-_]?string|pass(?:word|wd|phrase)|pwd|secret|credentials?|cookie|pat|webhook|dsn|token"
    r"|(?:api|access|secret|private|auth|account|license|wandb|comet|hf|openai)[-_]?key"
    r"|(?:secret|api)[-_]?token)",
    re.IGNORECASE,
)
#: ``--name=value``, ``name=value``; also in the words of a shell.
_ASSIGNED: Final = re.compile(r"(?<![\w.-])(-{0,2})([A-Za-z][\w.-]*)=([^\s;&|'\"]+)")
_OPTION: Final = re.compile(r"--?([A-Za-z][\w.-]*)")
#: The user and password of a URL. A password may hold what it should not, ``/`` and ``@``, but
#: after a port there is none.
USER_IN_URL: Final = re.compile(
    r"(?<=://)(?:[^/\s?#@'\"<>]{0,1024}@){1,8}"
    r"|(?<=://)[^/\s?#@:'\"<>]{0,256}:(?!\d+(?:[/?#\s]|$))[^\s'\"<>]{0,1024}@"
)
_PASSWORD_IN_URL: Final = re.compile(
    r"://[^/\s?#@:'\"<>]{0,256}:(?!\d+(?:[/?#\s]|$))([^\s'\"<>]{1,1024})@"
)
#: A secret among the parameters of a URL: its name, and its value.
_PARAMETER_OF_URL: Final = re.compile(
    r"(?<=[?&])([\w.-]{0,64}(?:token|secret|passw|password|credential|key|sig|signature)=)"
    r"[^&\s'\"<>]{1,1024}",
    re.IGNORECASE,
)
#: Shorter values are words or numbers that any text may have.
_LENGTH_MIN: Final = 6
#: A line of a secret of several, such as a private key.
_LINE_LENGTH_MIN: Final = 16
_NUMBER: Final = re.compile(r"[0-9.eE+-]+")
#: A longer one is no setting.
_NUMBER_LENGTH_MAX: Final = 12
_SWITCH: Final = frozenset({"true", "false", "yes", "no", "on", "off"})
#: What is said of a place in a text is no secret: ``<pad>``, ``[MASK]``, ``{key}``, ``${KEY}``.
_STAND_IN: Final = re.compile(r"<[^<>]*>|\[[\w ]*\]|\$?\{+[\w .:|-]*\}+|\$\w+|\$\([^()]*\)")
#: What a client sends to a server, and prints where that refuses.
_AUTHORIZATION: Final = re.compile(
    r"(\bauthorization['\"]?\s{0,4}[:=]\s{0,4}b?['\"]?(?:bearer|basic|token)\s{1,4})[^\s'\"]{1,4096}",
    re.IGNORECASE,
)
#: A password among the parts of a connection string, which ``;`` ends or begins.
_IN_CONNECTION: Final = re.compile(
    r"((?<![\w.-])(?:password|passwd|pwd)\s{0,4}=\s{0,4})"
    r"(?:'[^';\n]{1,1024}'|[^\s;'\"]{1,1024})(?=;)"
    r"|((?<=;)\s{0,4}(?:password|passwd|pwd)\s{0,4}=\s{0,4})[^\s;'\"]{1,1024}",
    re.IGNORECASE,
)
#: Variables whose values are in many texts, and that a secret may equal: the name of a user.
_PUBLIC: Final = ("USER", "LOGNAME", "HOSTNAME", "HOME", "SHELL", "LANG", "PWD", "TMPDIR")


def secrets_of(environ: Mapping[str, str], words: Iterable[str] = ()) -> list[str]:
    """Return the secrets of ``environ`` and of a command's ``words``, the longest first.

    One may be a part of another. Numbers are none: ``MAX_TOKENS=131072``.
    """
    public = {environ[name] for name in _PUBLIC if name in environ}
    candidates = set(_in_words(list(words)))
    for name, value in environ.items():
        if SECRET_NAME.search(name) and not _PLACE_NAME.search(name):
            candidates |= {value, *_long_lines(value)}
        if "://" in value:
            candidates |= set(_PASSWORD_IN_URL.findall(value))
    secrets = {value for value in candidates - public if _may_be_secret(value)}
    return sorted(secrets, key=len, reverse=True)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` without ``secrets``, and without those of URLs, connections and HTTP."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    if "://" in text:
        text = USER_IN_URL.sub(f"{MASK}@", text)
        text = _PARAMETER_OF_URL.sub(rf"\1{MASK}", text)
    if ";" in text:
        text = _IN_CONNECTION.sub(lambda match: (match[1] or match[2]) + MASK, text)
    return _AUTHORIZATION.sub(rf"\1{MASK}", text)


def masked_variable(name: str, value: str) -> str:
    """Return a variable's value for people: that of a secret masked, but numbers and switches."""
    if SECRET_NAME.search(name) and not _is_number(value) and value.lower() not in _SWITCH:
        return MASK
    return masked(value, ())


def masked_values(value: Any, secrets: Sequence[str], *, but: Iterable[str] = ()) -> Any:
    """Return plain JSON types with their texts masked, but the items of the keys ``but``."""
    if isinstance(value, str):
        return masked(value, secrets)
    if isinstance(value, dict):
        return {
            key: item if key in but else masked_values(item, secrets, but=but)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked_values(item, secrets, but=but) for item in value]
    return value


def _in_words(words: Sequence[str]) -> list[str]:
    """Return the values that the words of a command give to secret options and variables."""
    secrets = []
    for word, following in zip(words, [*words[1:], ""]):  # noqa: B905 - Python 3.7
        option = _OPTION.fullmatch(word)
        if option and _SECRET_OPTION.fullmatch(option[1]) and not following.startswith("-"):
            secrets.append(following)
        secrets += _PASSWORD_IN_URL.findall(word)
        for dashes, name, value in _ASSIGNED.findall(word):
            inner_name, _, inner = value.partition("=")
            if _is_given_secret(dashes, name):
                secrets.append(value)
            elif _is_given_secret("", inner_name):  # --env=TOKEN=...
                secrets.append(inner)
        # The whole word is one value, whatever it holds
        name, equals, value = word.lstrip("-").partition("=")
        if equals and " " not in name and _SECRET_OPTION.fullmatch(name):
            secrets.append(value)
    # A path, such as that of a file with the secret, is none
    return [value for value in secrets if not value.startswith(("/", "./", "~"))]


def _is_given_secret(dashes: str, name: str) -> bool:
    if not dashes and name.isupper() and SECRET_NAME.search(name):
        return True
    return _SECRET_OPTION.fullmatch(name) is not None


def _long_lines(value: str) -> list[str]:
    lines = value.splitlines()
    return [line for line in lines if len(line) >= _LINE_LENGTH_MIN] if len(lines) > 1 else []


def _may_be_secret(value: str) -> bool:
    if len(value) < _LENGTH_MIN or _is_number(value):
        return False
    return not _STAND_IN.fullmatch(value)


def _is_number(value: str) -> bool:
    return len(value) < _NUMBER_LENGTH_MAX and _NUMBER.fullmatch(value) is not None
