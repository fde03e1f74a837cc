"""Pretrained bases with LoRA adapters, chat templates, and attention over shared prefixes."""
