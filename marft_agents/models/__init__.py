"""Pretrained base models with LoRA adapters, chat templates, and attention over shared prefixes."""
