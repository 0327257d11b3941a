"""Tiny randomly initialised transformers models on the simulated device.

    python tests/sim/tiny_models.py NAME...

For each model: eager values against the CPU, then one capture after one eager run, replayed on changed inputs and
compared with eager. Prints a JSON object: name to {"eager": "equal", "capture": "ok" | "breaks", "replay": …, "line": …}.
`fixtures/sim/transformers_h200.json` has what an H200 did on models of the same classes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
DECODER = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 64}
VISION = {**TEXT, "image_size": 16, "patch_size": 8, "num_channels": 3}
Build = tuple[str, str, dict[str, Any], str]

MODELS: dict[str, Build] = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", DECODER, "ids"),
    "LlamaStaticCache": ("LlamaConfig", "LlamaForCausalLM", DECODER, "static-cache"),
    "Mistral": ("MistralConfig", "MistralForCausalLM", DECODER, "ids"),
    "Qwen2": ("Qwen2Config", "Qwen2ForCausalLM", DECODER, "ids"),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM", {**DECODER, "head_dim": 8}, "ids"),
    "Phi3": ("Phi3Config", "Phi3ForCausalLM", {**DECODER, "pad_token_id": 0}, "ids"),
    "Mixtral": ("MixtralConfig", "MixtralForCausalLM", {**DECODER, "intermediate_size": 48, "num_local_experts": 4}, "ids"),
    "GPT2": ("GPT2Config", "GPT2LMHeadModel", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4}, "ids"),
    "GPTNeoX": ("GPTNeoXConfig", "GPTNeoXForCausalLM", TEXT, "ids"),
    "OPT": (
        "OPTConfig", "OPTForCausalLM",
        {**TEXT, "ffn_dim": 37, "word_embed_proj_dim": 32, "max_position_embeddings": 64}, "ids",
    ),
    "Bloom": ("BloomConfig", "BloomForCausalLM", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "ids"),
    "Bert": ("BertConfig", "BertModel", TEXT, "ids"),
    "Roberta": ("RobertaConfig", "RobertaModel", TEXT, "ids"),
    "DistilBert": (
        "DistilBertConfig", "DistilBertModel",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}, "ids",
    ),
    "Electra": ("ElectraConfig", "ElectraModel", {**TEXT, "embedding_size": 16}, "ids"),
    "T5": (
        "T5Config", "T5ForConditionalGeneration",
        {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
         "decoder_start_token_id": 0}, "encoder-decoder",
    ),
    "Whisper": (
        "WhisperConfig", "WhisperForConditionalGeneration",
        {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "num_mel_bins": 8,
         "max_source_positions": 16, "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2, "decoder_start_token_id": 3, "suppress_tokens": None, "begin_suppress_tokens": None},
        "audio",
    ),
    "ViT": ("ViTConfig", "ViTModel", VISION, "pixels"),
    "CLIPVision": ("CLIPVisionConfig", "CLIPVisionModel", VISION, "pixels"),
    "Dinov2": ("Dinov2Config", "Dinov2Model", VISION, "pixels"),
    "ConvNext": (
        "ConvNextConfig", "ConvNextModel",
        {"num_channels": 3, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}, "large-pixels",
    ),
    "ResNet": (
        "ResNetConfig", "ResNetModel",
        {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}, "large-pixels",
    ),
}  # fmt: skip


def build(name: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    """The model on the CPU, and a function that makes its inputs from a seed."""
    import torch
    import transformers

    config_class, model_class, settings, kind = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**settings)
    model = getattr(transformers, model_class)(config).eval()

    def inputs(seed: int) -> dict[str, Any]:
        random = torch.Generator().manual_seed(seed)
        ids = torch.randint(3, 90, (1, 7), generator=random)
        if kind == "encoder-decoder":
            return {"input_ids": ids, "decoder_input_ids": ids[:, :3], "use_cache": False}
        if kind == "audio":
            return {
                "input_features": torch.randn(1, 8, 32, generator=random), "decoder_input_ids": ids[:, :3],
                "use_cache": False,
            }  # fmt: skip
        if "pixels" in kind:
            side = 32 if kind.startswith("large") else 16
            return {"pixel_values": torch.randn(1, 3, side, side, generator=random)}
        causal = "ForCausalLM" in model_class or "LMHead" in model_class
        return {"input_ids": ids} | ({"use_cache": False} if causal and kind == "ids" else {})

    return model, inputs


def first_tensor(output: Any) -> Any:
    """The output that is compared."""
    return output[0] if isinstance(output, tuple) else next(iter(output.values()))


def run(name: str) -> dict[str, Any]:
    """What the model does on the simulated device."""
    import copy

    import torch

    if name.endswith("StaticCache"):
        return run_with_static_cache(name)
    model, inputs = build(name)
    result: dict[str, Any] = {}
    with torch.inference_mode():
        expected = [first_tensor(model(**inputs(seed))) for seed in (1, 2)]
        device_model = copy.deepcopy(model).cuda()
        static = {key: value.cuda() if hasattr(value, "cuda") else value for key, value in inputs(1).items()}
        eager = first_tensor(device_model(**static))
        result["eager"] = "equal" if torch.allclose(eager.cpu(), expected[0], atol=1e-4) else "differs"
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                output = first_tensor(device_model(**static))
        except Exception as error:
            return result | {"capture": "breaks"} | place_of(error)
        for key, value in inputs(2).items():
            if hasattr(value, "cuda"):
                static[key].copy_(value)
        graph.replay()
        equal = torch.allclose(output.cpu(), expected[1], atol=1e-3, rtol=1e-3)
        return result | {"capture": "ok", "replay": "equal to eager" if equal else "differs"}


def run_with_static_cache(name: str) -> dict[str, Any]:
    """Decode steps of one token with a cache of fixed size, its position on the device."""
    import copy

    import torch
    import transformers

    model, inputs = build(name)
    with torch.inference_mode():
        prompt = inputs(1)["input_ids"]

        def tokens(one: Any, device: str, *, graphed: bool) -> list[int]:
            cache = transformers.StaticCache(config=one.config, max_cache_len=32)
            ids = prompt.to(device)
            out = one(ids, past_key_values=cache, cache_position=torch.arange(7, device=device), use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True).clone()
            position = torch.tensor([7], device=device)

            def step() -> Any:
                logits = one(token, past_key_values=cache, cache_position=position, use_cache=True).logits
                return logits[:, -1].argmax(-1, keepdim=True)

            replay: Callable[[], Any] = step
            if graphed:
                lengths = [layer.cumulative_length.clone() for layer in cache.layers]
                step()
                for layer, length in zip(cache.layers, lengths, strict=True):  # the warm-up advanced the cache
                    layer.cumulative_length.copy_(length)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    output = step()

                def replay() -> Any:
                    graph.replay()
                    return output

            found = []
            for _ in range(5):
                token.copy_(replay())
                position.add_(1)
                found.append(int(token))
            return found

        expected = tokens(model, "cpu", graphed=False)
        on_device = copy.deepcopy(model).cuda()
        eager = tokens(on_device, "cuda", graphed=False)
        replayed = tokens(on_device, "cuda", graphed=True)
    return {
        "eager": "equal" if eager == expected else "differs",
        "capture": "ok",
        "replay": "equal to eager" if replayed == expected else "differs",
    }


def place_of(error: Exception) -> dict[str, str]:
    """First error of the chain and the line of transformers where it was raised."""
    first: BaseException = error
    while first.__context__ is not None:
        first = first.__context__
    frames = [f for f in traceback.extract_tb(first.__traceback__) if f"{os.sep}transformers{os.sep}" in f.filename]
    line = ""
    if frames:
        file = frames[-1].filename.rpartition(f"site-packages{os.sep}")[2]
        line = f"{file}:{frames[-1].lineno}"
    return {"first_error": f"{type(first).__name__}: {first}"[:120], "line": line}


def main(names: list[str]) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    warnings.filterwarnings("ignore")
    import torch

    from cudagraph_doctor.sim import install

    torch.set_num_threads(1)
    install()
    results = {}
    for name in names or list(MODELS):
        try:
            results[name] = run(name)
        except Exception as error:
            traceback.print_exc()
            results[name] = {"eager": f"failed: {error!r}"[:300]}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
