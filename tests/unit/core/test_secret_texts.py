"""What is a secret, by its variable, its option or its URL, and what is none."""

from __future__ import annotations

import time

import pytest

from pytest_dlperf.core.secret_texts import (
    SECRET_NAME,
    masked,
    masked_values,
    masked_variable,
    secrets_of,
)


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DB_PASSWD", "KEY_PASSPHRASE",
        "AWS_CREDENTIALS", "DLPERF_WEBHOOK", "SENTRY_DSN", "TORCH_PASS", "SSHPASS", "DB_PASS_OLD",
        "MYSQL_PWD", "mysql_pwd", "PWD_OF_DB", "GH_PAT", "PAT", "NCCL_AUTH", "BASICAUTH",
        "HTTP_AUTHORIZATION", "SESSION_COOKIE", "AZURE_CREDS",
        "JWT", "USER_JWT", "LICENSE", "MLM_LICENSE", "DB_CONN", "CONNECTION_STRING",
        "SQLCONNSTR_A",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str):
    assert secrets_of({name: "geheim-1"}) == ["geheim-1"]


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "PWD", "OLDPWD", "GIT_AUTHOR_NAME", "XAUTHORITY", "COMPASS_HOME", "BYPASS",
        "TOKENIZERS_PARALLELISM", "PATTERN", "PASSES", "USER", "HOME", "XLA_FLAGS",
        "LICENSES", "CUDA_DEVICE_MAX_CONNECTIONS", "CONNECT",
    ],
)  # fmt: skip
def test_names_of_no_secret(name: str):
    assert SECRET_NAME.search(name) is None


@pytest.mark.parametrize(
    "environ",
    [
        {"A_KEY": "1"},
        {"A_KEY": "true"},
        {"AUTH": "basic"},
        {"MAX_TOKENS": "131072"},
        {"LEARNING_KEY": "1.5e-3"},
        {"SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1"},
        {"AWS_SHARED_CREDENTIALS_FILE": "/home/me/.aws/credentials"},
        {"USER": "alice-smith", "DB_AUTH": "alice-smith"},
        {"PROXY": "http://proxy.example:8080/x"},
        {"SEP_KEY": "<end of text>", "MASK_KEY": "[MASK 1]", "A_TOKEN": "${{ secrets.A_TOKEN }}"},
    ],
    ids=str,
)
def test_values_that_any_text_may_have_are_no_secrets(environ: dict[str, str]):
    assert secrets_of(environ) == []


def test_the_longest_comes_first_and_lines_of_a_private_key_count():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nx\n-----END KEY-----"
    assert secrets_of({"SSH_KEY": key, "A_TOKEN": "MIIEvQIBADAN"}) == [
        key, "MIIEvQIBADANBgkqhkiG", "-----BEGIN KEY-----", "-----END KEY-----", "MIIEvQIBADAN",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value", ['{"type": "account", "id": 3}', '[{"a": 1}]', "<key>abc</key>", "$2b$12$abcdefgh"]
)
def test_a_secret_may_be_json(value: str):
    assert secrets_of({"GOOGLE_CREDENTIALS": value}) == [value]


@pytest.mark.parametrize(
    ("words", "secrets"),
    [
        (["--wandb-key=abcdef123"], ["abcdef123"]),
        (["--api_key", "abcdef123"], ["abcdef123"]),
        (["--db-password", "two words"], ["two words"]),
        (["--password=it's a secret"], ["it's a secret", "it"]),
        (["--token=hf_abcdef", "--hub.access_token=ghijkl"], ["hf_abcdef", "ghijkl"]),
        (["wandb.api_key=abcdef123"], ["abcdef123"]),
        (["env", "WANDB_API_KEY=abcdef123", "python"], ["abcdef123"]),
        (["run", "--env=MYSQL_PWD=abcdef123"], ["abcdef123"]),
        (["sh", "-c", "export GH_PAT=abcdef123; python x.py"], ["abcdef123"]),
        (["--db-pass=abcdef123", "--basic-auth", "a:bcdef"], ["abcdef123", "a:bcdef"]),
        (["--auth", "abcdef123"], ["abcdef123"]),
        (["--db=postgres://bob:abcdef123@host/x"], ["abcdef123"]),
    ],
    ids=str,
)
def test_secrets_of_a_command(words: list[str], secrets: list[str]):
    assert [one for one in secrets_of({}, words) if len(one) > 2] == [
        one for one in secrets if len(one) > 2
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["--num-tokens=131072"],
        ["--tokenizer=meta-llama/Llama-3"],
        ["--pad-token=<pad>"],
        ["--eos_token", "end-of-text"],
        ["--image-token=placeholder"],
        ["--sort-key=length"],
        ["--password-file=/run/secrets/x"],
        ["--secret=/run/secrets/x"],
        ["--token", "--verbose"],
        ["--key-dim=128128"],
        ["--backward-pass=recompute"],
        ["--api-key=${API_KEY}"],
        ["--master=http://host:8080/path"],
    ],
    ids=str,
)
def test_words_of_a_training_are_no_secrets(words: list[str]):
    assert secrets_of({}, words) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("at https://u:p@host/x", "at https://…@host/x"),
        ("at https://token@host/x", "at https://…@host/x"),
        ("redis://:p@h, and https://u@g", "redis://…@h, and https://…@g"),
        ("postgres://bob:p@ss@host/x", "postgres://…@host/x"),
        ("postgres://bob:p/s?#s@host/x", "postgres://…@host/x"),
        ("see http://host:8080/x?mail=a@b.c", "see http://host:8080/x?mail=a@b.c"),
        ("see http://host:8080 or a@b.c", "see http://host:8080 or a@b.c"),
        ("https://h/x?token=abc&n=1", "https://h/x?token=…&n=1"),
        ("https://h/x?n=1&X-Amz-Signature=abc", "https://h/x?n=1&X-Amz-Signature=…"),
        ("s3://bucket/key=1", "s3://bucket/key=1"),
        ("a@b, loss=1, key=2", "a@b, loss=1, key=2"),
        ("Authorization: Bearer abc.d", "Authorization: Bearer …"),
        ("{'authorization': b'Basic YTpi', 'x': 1}", "{'authorization': b'Basic …', 'x': 1}"),
        ("authorization: denied", "authorization: denied"),
        ("to Server=h;Uid=bob;Pwd=ab/c;Db=x", "to Server=h;Uid=bob;Pwd=…;Db=x"),
        ("to Password = 'a b'; Server=h", "to Password = …; Server=h"),
        ("to Server=h; password=abc", "to Server=h; password=…"),
        ("def f(password: str, pwd=None): x; y", "def f(password: str, pwd=None): x; y"),
        ("auth=None; steps=3", "auth=None; steps=3"),
    ],
)
def test_urls_and_headers(text: str, told: str):
    assert masked(text, ()) == told


def test_a_secret_is_masked_wherever_it_is():
    assert masked("x abcdef, 'abcdef'", ["abcdef"]) == "x …, '…'"
    values = {"a": ["abcdef", 1, None], "id": "abcdef", "b": {"c": "is abcdef"}}
    told = {"a": ["…", 1, None], "id": "abcdef", "b": {"c": "is …"}}
    assert masked_values(values, ["abcdef"], but={"id"}) == told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("NCCL_AUTH", "abc", "…"),
        ("TORCH_PASS", "1", "1"),
        ("FLAGS_x_key", "True", "True"),
        ("XLA_FLAGS", "--x=https://u:p@h", "--x=https://…@h"),
    ],
)
def test_variables(name: str, value: str, told: str):
    assert masked_variable(name, value) == told


@pytest.mark.once
@pytest.mark.parametrize(
    "piece",
    [
        "://",
        "://a:b",
        "://a@",
        "://a:b?token=",
        "--key=",
        "a=b=",
        "authorization: ",
        "${",
        "<",
        ";pwd=",
    ],
)
def test_no_text_takes_long(piece: str):
    text = piece * (64_000 // len(piece))
    before_s = time.process_time()
    masked(text, ["abcdef"])
    secrets_of({"X": text}, [text])
    # Quadratic ones take minutes
    assert time.process_time() - before_s < 20
