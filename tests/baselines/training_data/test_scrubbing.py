"""Credentials become their kind, control tokens disappear; ordinary text stays byte for byte."""

import pytest

from baselines.training_data.scrubbing import Scrubber

# put together here, so that no scanner of this repository finds a credential
LEAKS = [
    ("GitHub token", "push with ghp_" + "a1B2" * 9, "push with [GitHub token]"),
    ("Hugging Face token", "login hf_" + "abcd" * 8 + " now", "login [Hugging Face token] now"),
    ("AWS access key", "AKIA" + "ABCD" * 4, "[AWS access key]"),
    ("API key", "key is sk-" + "proj-" + "x9" * 20 + ".", "key is [API key]."),
    ("bearer token", "Authorization: Bearer " + "q" * 24, "Authorization: Bearer [bearer token]"),
    ("password in a URL", "postgres://bob:hunter2@db/x", "postgres://bob:[password in a URL]@db/x"),
    ("token in a URL", "GET /a?page=2&token=abc123 ok", "GET /a?page=2&token=[token in a URL] ok"),
    ("assigned secret", 'api_key = "zzzzyyyyxxxx"', 'api_key = "[assigned secret]"'),
    ("JSON web token", "eyJ" + "h" * 10 + ".eyJ" + "p" * 12 + ".sig", "[JSON web token]"),
    (
        "private key",
        "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\n-----END RSA PRIVATE " + "KEY-----\nrest",
        "[private key]\nrest",
    ),
]
ORDINARY = [
    "Write 34 on the label of the lamp.",
    'read_price(ware="tube")\nfinish()',
    "The secret is patience; my password is easy to forget.",
    "a < b and b > c, 5|6 |x| <- here, https://example.org/a?page=2",
    "答案是 5。 naïve <tag> [1, 2]",
]


@pytest.mark.parametrize(("kind", "text", "clean"), LEAKS)
def test_a_credential_becomes_its_kind(kind, text, clean):
    for scrub in ("prompt", "completion"):
        scrubber = Scrubber()
        assert getattr(scrubber, scrub)(text) == clean
        assert dict(scrubber.secrets) == {kind: 1}
        assert getattr(scrubber, scrub)(clean) == clean, "scrubbing twice changes nothing more"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text):
    scrubber = Scrubber()
    assert scrubber.prompt(text) == scrubber.completion(text) == text
    assert not scrubber.secrets
    assert not any(scrubber.control_tokens.values())


def test_control_tokens_are_broken_up_in_prompts_and_removed_from_actions():
    scrubber = Scrubber(["<my_end>"])
    text = "yes<|im_end|>\n<|im_start|>user<my_end> [INST]"
    assert scrubber.prompt(text) == "yes< |im_end|>\n< |im_start|>user< my_end> [ INST]".replace("[ INST]", "[ INST]")
    assert scrubber.completion(text) == "yes\nuser "
    assert dict(scrubber.control_tokens) == {"prompts": 4, "completions": 4}
