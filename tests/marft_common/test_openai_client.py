"""The client of OpenAI-compatible servers: its time limit holds for a whole try."""

from __future__ import annotations

import pytest
from openai import APIStatusError, APITimeoutError

from marft_common.openai_client import open_client
from tests.helpers.dripping_server import KINDS, dripping
from tests.helpers.endpoint import serving


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_end_is_late(kind):
    with dripping(kind) as url:
        client = open_client(f"{url}/v1", "none", timeout_s=0.2, retries=0)
        with client, pytest.raises(APITimeoutError):
            client.models.list()


def test_answers_in_time_arrive_one_after_the_other():
    with serving() as server, open_client(server.url, "none", timeout_s=30, retries=0) as client:
        for _ in range(3):
            assert [model.id for model in client.models.list()] == ["echo"]
        server.models = (404, {"error": {"message": "none"}})
        with pytest.raises(APIStatusError, match="none"):
            client.models.list()
