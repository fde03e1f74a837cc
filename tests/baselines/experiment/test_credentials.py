"""Credentials are found wherever a record holds them, and ordinary names and texts are left alone."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs_data
from baselines.experiment.credentials import credentials_in, names_a_secret
from baselines.publishing.private_content import search

# put together here, so that no scanner of this repository finds a credential
FORMS = {
    "Hugging Face token": "hf_" + "aB3d" * 9,
    "GitHub token": "ghp_" + "a1B2" * 9,
    "Slack token": "xoxb-" + "12345678-" * 2 + "abcd",
    "AWS access key": "AKIA" + "ABCD" * 4,
    "Google API key": "AIza" + "Sy_-" * 9,
    "API key": "sk-" + "ant-api03-" + "x9" * 20,
    "JSON web token": "eyJ" + "h" * 10 + ".eyJ" + "p" * 12 + ".sig",
    "bearer token": "Bearer " + "q7" * 10,
    "basic authorization": "Basic " + "dXNlcjpodW50ZXIyIQ" + "==",
    "private key": "-----BEGIN PRIVATE " + "KEY-----\nMIIE\n-----END PRIVATE " + "KEY-----\n",
    "password in a URL": "postgres://bob:hunter2@db/x",
    "token in a URL": "https://host/a?page=2&token=abc123",
}
ASSIGNED = [
    "export AWS_SECRET_" + "ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE",
    "AZURE_CLIENT_SECRET='abc8Q~zzzzzzzzzz'",
    "export HF_TOKEN=abcdefgh1234567890",
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + "Ab1/" * 10 + "==;EndpointSuffix=core.windows.net",
    "Endpoint=sb://x.net/;SharedAccessKeyName=root;SharedAccessKey=" + "Ab1/" * 10 + "=",
    "db.password: correct-horse",
    'client_secret => "zzzzyyyy"',
    "X-Api-Key: abc123",
    "curl -H 'X-Vault-Token: s.1234' host",
    "Authorization: Basic YTpi",
    "authorization: token abcdef",
]
SECRET_NAMES = [
    *("api_key", "apiKey", "API-KEY", "x-api-key", "openai_api_key", "OPENAI_API_KEY", "access_key", "SecretAccessKey"),
    *(
        "token",
        "access_token",
        "accessToken",
        "hf_token",
        "SessionToken",
        "password",
        "db_password",
        "passwd",
        "secret",
    ),
    *("client_secret", "clientSecret", "Authorization", "Proxy-Authorization", "credentials", "connectionString"),
    *("AccountKey", "private_key", "passphrase", "api_keys"),
]
ORDINARY_NAMES = [
    *("tokens", "max_new_tokens", "prompt_tokens", "token_count", "tokens_per_episode", "token_ids", "tokenizer"),
    *("eos_token", "pad_token", "bosToken", "unk_token", "next_token", "key", "primary_key", "sort_key", "keyword"),
    *("author", "authority", "pass_rate", "passed", "secretary", "api_key_env", "monkey", "turkey", "keys"),
]
ORDINARY_TEXTS = [
    "The secret is patience; my password is easy to forget.",
    "Basic mathematics, Basic JavaScript and basic arithmetic",
    "the bearer of this letter; authorization: required",
    "https://example.org/a?page=2#x@y and ssh://git@github.com/a/b",
    "def f(token: str, max_tokens: int = 16, eos_token='</s>'): return tokenizer.decode(token)",
    "api_key=os.environ['OPENAI_API_KEY'], password=getpass.getpass(), token=${TOKEN} secret=[secret]",
    "self.secrets: Counter[str] = Counter()",
    "the risk-averse-and-very-careful-desk-sk-lamp",
]


def reasons(record):
    return [one.reason for one in search(record, "file")]


@pytest.mark.parametrize("kind", FORMS)
def test_each_form_is_found_alone_and_within_a_text(kind):
    text = FORMS[kind]
    assert [one.kind for one in credentials_in(text)] == [kind]
    assert kind in [one.kind for one in credentials_in(f"so:\n{text}\nand so on")]


@pytest.mark.parametrize("text", ASSIGNED)
def test_what_is_exported_or_sent_as_a_header_is_found(text):
    assert len(credentials_in(text)) == 1
    assert len(credentials_in(f"first\n{text}\nlast")) == 1
    assert reasons(text) == ["a credential"]


@pytest.mark.parametrize("text", ORDINARY_TEXTS)
def test_ordinary_texts_are_none(text):
    assert credentials_in(text) == []
    assert reasons(json.dumps({"text": text})) == []


def test_the_embedded_data_hold_none():
    for name in envs_data.names():
        for split in envs_data.manifest()[name]["splits"]:
            assert not any("credential" in reason for reason in reasons(envs_data.rows(name, split)[::20])), name


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize(
    "place",
    [
        lambda name: {name: "x"},
        lambda name: {"a": [{name: ["x"]}]},
        lambda name: {name: {"value": "x"}},
        lambda name: {"name": name, "value": "x"},
        lambda name: json.dumps({name: "x"}),
        lambda name: "call(" + json.dumps({"headers": {name: "x"}}) + ")",
        lambda name: "call(" + json.dumps(json.dumps({"headers": {name: "x"}})) + ")",
        lambda name: f"{ {name: 'x'} }",
        lambda name: json.dumps({name: "x"}).replace("a", "\\u0061").replace("e", "\\u0065"),
    ],
)
def test_a_value_under_a_secret_name_is_found(name, place):
    assert names_a_secret(name)
    assert set(reasons(place(name))) == {"a credential"}


@pytest.mark.parametrize("name", ORDINARY_NAMES)
@pytest.mark.parametrize("value", [12, 0.5, "</s>", "level", None, True, ["a"], {"count": 3}])
def test_a_value_under_an_ordinary_name_is_none(name, value):
    assert not names_a_secret(name)
    assert reasons({name: value}) == reasons([json.dumps({name: value})]) == []


@pytest.mark.parametrize(
    ("record", "count"),
    [
        ({"token": 12, "secret": 3, "api_key": None, "password": True, "credentials": "  "}, 0),
        ({"password": 12345678}, 1),
        ({"token": " Hello", "logprob": -0.25, "top": [{"token": "Hi", "logprob": -1.5}]}, 0),
        ({"properties": {"password": {"type": "string", "description": "new password"}}, "required": ["password"]}, 0),
        ({"headers_env": {"Authorization": "HOTEL_KEY"}, "api_key_env": "OPENAI_API_KEY"}, 0),
        ({"headers": [["X-Api-Key", "x"], ["Accept", "text/html"], ["Authorization", "Digest x"]]}, 2),
        ([["password", "user"], ["token", "count"]], 0),
    ],
)
def test_numbers_schemas_and_headers(record, count):
    assert len(reasons(record)) == count


def nested(text):
    """Ways of putting a text into a record: value, key, list, JSON in a text, and those within each other."""
    return st.recursive(
        st.sampled_from([text, {text: 1}, f"see {text} there"]),
        lambda inner: st.one_of(
            inner.map(lambda one: {"a": 1, "texts": one}),
            inner.map(lambda one: [0, one]),
            inner.map(json.dumps),
            inner.map(lambda one: json.dumps({"log": one}, indent=1)),
            inner.map(lambda one: "said:\n" + json.dumps({"log": one})),
        ),
        max_leaves=4,
    )


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(FORMS)).flatmap(lambda kind: nested(FORMS[kind])))
def test_a_credential_is_found_however_it_is_nested_and_never_shown(record):
    found = search(record, "file")
    assert found
    shown = " ".join(map(str, found))
    assert not any(FORMS[kind] in shown for kind in FORMS)


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text("abc xyz.\n", max_size=30),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ORDINARY_NAMES), inner, max_size=3),
    )
)
def test_records_of_ordinary_names_hold_none(record):
    assert reasons(record) == reasons(json.dumps(record)) == []


def test_a_key_that_is_a_credential_is_named_by_its_number():
    found = search({"models": {"a": "x", FORMS["GitHub token"]: {"url": "http://u:p@h"}}}, "config.json")
    assert list(map(str, found)) == [
        "config.json: models: key 2: a credential",
        "config.json: models.key 2.url: a URL with a password or token",
    ]


@pytest.mark.parametrize(
    "piece", ["a", "\\", "=", '"', "a=", "://", "?x", "token", "x-a-", "-----BEGIN ", "{", "[", "eyJ"]
)
def test_long_texts_take_time_in_proportion(piece):
    text = piece * (40_000 // len(piece))
    begun = time.process_time()
    reasons([text])
    assert time.process_time() - begun < 1
