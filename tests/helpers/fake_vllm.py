"""A small engine with vLLM's two faces, its HTTP server and its Python module, that really samples on CPU.

The base is loaded by transformers from a folder, adapters by PEFT from the folders that are named; every step is a
plain forward pass over the whole sequence. What is answered, and what is refused with which status, follows
vllm/entrypoints/openai (completion/protocol.py, models/serving.py) and vllm.LLM.generate in vLLM's published source.
"""

from __future__ import annotations

import contextlib
import json
import threading
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

LOWEST = -9999.0  # how vLLM's server writes minus infinity


class Engine:
    """Samples on one base with LoRA adapters by name."""

    def __init__(self, folder: str, *, raw_logprobs: bool = False) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.model: Any = self.base
        self.raw_logprobs = raw_logprobs
        self.adapters: set[str] = set()
        self.lock = threading.Lock()

    def load(self, name: str, path: str) -> None:
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an attribute's old name
            if isinstance(self.model, PeftModel):
                self.model.load_adapter(path, adapter_name=name)
            else:
                self.model = PeftModel.from_pretrained(self.base, path, adapter_name=name).eval()
            self.adapters.add(name)

    def _active_adapter(self, adapter: str | None) -> contextlib.AbstractContextManager[None]:
        if adapter is None and isinstance(self.model, PeftModel):
            return self.model.disable_adapter()
        if adapter is not None:
            self.model.set_adapter(adapter)
        return contextlib.nullcontext()

    @torch.no_grad()
    def sample(
        self, adapter: str | None, prompt: list[int], sampling: Any
    ) -> tuple[list[int], list[dict[int, float]], str]:
        """Return tokens, per position the log-probs of the likeliest and of the sampled one, and the finish reason."""
        generator = torch.Generator().manual_seed(sampling.seed)
        ends = {self.tokenizer.eos_token_id, *sampling.stop_token_ids}
        tokens, told = [], []
        with self.lock, self._active_adapter(adapter):
            while len(tokens) < sampling.max_tokens and not (tokens and tokens[-1] in ends):
                raw = self.model(torch.tensor([prompt + tokens])).logits[0, -1]
                logits = raw / sampling.temperature
                if sampling.top_k:
                    logits[logits < logits.topk(sampling.top_k).values[-1]] = -torch.inf
                if sampling.top_p < 1:
                    ordered, index = logits.softmax(-1).sort(descending=True)
                    logits[index[ordered.cumsum(-1) - ordered >= sampling.top_p]] = -torch.inf
                token = int(torch.multinomial(logits.softmax(-1), 1, generator=generator))
                logprobs = (raw if self.raw_logprobs else logits).log_softmax(-1)
                likeliest = logprobs.topk(min(sampling.logprobs, len(logprobs))).indices.tolist()
                told.append({i: float(logprobs[i]) for i in [token, *likeliest]})
                tokens.append(token)
        return tokens, told, "stop" if tokens[-1] in ends else "length"


@dataclass
class SamplingParams:
    """The fields of vllm.SamplingParams that are used, with its defaults."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    detokenize: bool = True


class LLM:
    """vllm.LLM: an adapter is loaded on its first request, and known by its number from then on."""

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
        enable_lora: bool = False,
        max_loras: int = 1,
        max_lora_rank: int = 16,
        logprobs_mode: str = "raw_logprobs",
        max_logprobs: int = 20,
        generation_config: str = "auto",
        enforce_eager: bool = False,
        enable_chunked_prefill: bool | None = None,
        max_num_batched_tokens: int | None = None,
        kv_cache_memory_bytes: int | None = None,
    ) -> None:
        assert enable_lora
        assert enable_chunked_prefill is False  # on a CPU, seeds fail with chunks
        self.arguments = {"dtype": dtype, "max_model_len": max_model_len, "max_lora_rank": max_lora_rank}
        self.arguments |= {"max_loras": max_loras, "generation_config": generation_config}
        self.engine = Engine(model, raw_logprobs=logprobs_mode == "raw_logprobs")

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None):
        assert len(prompts) == len(sampling_params) == len(lora_request)
        assert len({lora is None for lora in lora_request}) == 1  # vLLM's CPU kernels do not tell them apart
        return [self._one(*each) for each in zip(prompts, sampling_params, lora_request, strict=True)]

    def _one(self, prompt, params, lora):
        name = None if lora is None else str(lora.lora_int_id)
        if name is not None and name not in self.engine.adapters:
            self.engine.load(name, lora.lora_path)
        tokens, told, reason = self.engine.sample(name, prompt["prompt_token_ids"], params)
        logprobs = [{i: SimpleNamespace(logprob=value) for i, value in position.items()} for position in told]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, logprobs=logprobs, finish_reason=reason)])


@dataclass
class LoRARequest:
    """vllm.lora.request.LoRARequest."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""


def modules() -> dict[str, types.ModuleType]:
    """Return what `import vllm` and `import vllm.lora.request` find."""
    top, lora, request = (types.ModuleType(name) for name in ("vllm", "vllm.lora", "vllm.lora.request"))
    top.LLM, top.SamplingParams, request.LoRARequest = LLM, SamplingParams, LoRARequest
    return {module.__name__: module for module in (top, lora, request)}


class Server(ThreadingHTTPServer):
    """`vllm serve FOLDER --enable-lora`, as far as it is used.

    Attributes:
        updating: VLLM_ALLOW_RUNTIME_LORA_UPDATING; without it the routes do not exist.
        withheld: keys of a choice that are not told.
        changed: keys of a choice that are told otherwise.
        asked: bodies of the completions that were asked for.
        applied: maps the adapter of a request to the one that is sampled from (None: the base).
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: str, *, port: int = 0, **engine: Any) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.engine = Engine(folder, **engine)
        self.folder = folder
        self.updating = True
        self.withheld: tuple[str, ...] = ()
        self.changed: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        self.applied: Callable[[str], str | None] = lambda name: name

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def completion(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(body)
        model = body["model"]
        if model != self.folder and model not in self.engine.adapters:
            return _error(404, f"The model `{model}` does not exist.")
        names = ("temperature", "top_p", "top_k", "seed", "max_tokens", "logprobs", "stop_token_ids")
        params = SamplingParams(**{name: body[name] for name in names})
        adapter = None if model == self.folder else self.applied(model)
        tokens, told, reason = self.engine.sample(adapter, body["prompt"], params)
        assert body["return_token_ids"]
        assert body["return_tokens_as_token_ids"]
        top = [{f"token_id:{i}": max(value, LOWEST) for i, value in position.items()} for position in told]
        choice = {
            "index": 0,
            "text": self.engine.tokenizer.decode(tokens, skip_special_tokens=True),
            "finish_reason": reason,
            "token_ids": tokens,
            "prompt_token_ids": body["prompt"],
            "logprobs": {
                "tokens": [f"token_id:{token}" for token in tokens],
                "token_logprobs": [position[token] for token, position in zip(tokens, told, strict=True)],
                "top_logprobs": top,
                "text_offset": [0] * len(tokens),
            },
        }
        choice = {key: value for key, value in {**choice, **self.changed}.items() if key not in self.withheld}
        return 200, {"id": "1", "object": "text_completion", "created": 0, "model": model, "choices": [choice]}

    def load(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["lora_name"]
        if name in self.engine.adapters:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        self.engine.load(name, body["lora_path"])
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["lora_name"]
        if name not in self.engine.adapters:
            return _error(404, f"The lora adapter '{name}' cannot be found.")
        self.engine.adapters.discard(name)
        return 200, f"Success: LoRA adapter '{name}' removed successfully."

    def models(self) -> tuple[int, Any]:
        cards = [{"id": self.folder, "parent": None}, *({"id": n, "parent": "base"} for n in self.engine.adapters)]
        return 200, {"object": "list", "data": [{"object": "model", "created": 0, **card} for card in cards]}


def _error(status: int, message: str) -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": "BadRequestError", "code": status}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the receipt of its headers
    server: Server

    def do_GET(self):
        self._answer(*self.server.models())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        routes = {"/v1/completions": self.server.completion}
        if self.server.updating:
            routes |= {"/v1/load_lora_adapter": self.server.load, "/v1/unload_lora_adapter": self.server.unload}
        route = routes.get(self.path)
        self._answer(*(route(body) if route else _error(404, "Not Found")))

    def _answer(self, status, content):
        text = isinstance(content, str)
        data = content.encode() if text else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass
